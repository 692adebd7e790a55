"""What does not fit into memory is refused before it is allocated, in every norm."""

import numpy as np
import pytest

from attsvm import Problem, Selection, Tokens, TooLarge, norm_of, solve
from attsvm.solvers.auto import method_of
from attsvm.solvers.working_set import DataSpan, fits

WHOLE = DataSpan(None, None)


@pytest.mark.parametrize(
    ("norm", "k"),
    [("max", 12_600), ("l1", 12_600), ("nuclear", 12_600), ("spectral", 12_600)],
)
def test_rows_that_do_not_fit_are_refused(monkeypatch, norm, k):
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 24e9)
    with pytest.raises(TooLarge, match=f"{k} rows of 147456 unknowns in norm {norm} would need"):
        fits(method_of(norm_of(norm)), norm_of(norm), WHOLE, k, (384, 384))
    fits(method_of(norm_of(norm)), norm_of(norm), WHOLE, 100, (32, 32))
    # The span of a few queries is all that a rotational norm works in.
    thin = DataSpan(None, np.zeros((384, 2)))
    fits(method_of(norm_of(norm)), norm_of(norm), thin, 2_000, (384, 384))


@pytest.mark.parametrize("C", [None, 1.0])
@pytest.mark.parametrize("solver", ["auto", "splitting"])
@pytest.mark.parametrize("norm", ["max", "l1", "l3", "nuclear", "spectral"])
def test_a_solve_that_does_not_fit_is_refused(monkeypatch, norm, solver, C):
    draw = np.random.default_rng(0)
    tokens = Tokens(draw.standard_normal((3, 4, 5)), queries=draw.standard_normal((3, 5)))
    problem = Problem.of(tokens, Selection.of(tokens, [0, 1, 2]))
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 1e3)
    with pytest.raises(TooLarge, match="GB of memory"):
        solve(problem, norm, solver=solver, C=C)

"""What follows from numbers that are not met: for what was read, recalled, and run smaller."""

import pytest

from attsvm.experiments.studies import CLAIMS
from attsvm.experiments.studies.claim import Finding, at_most, redrawn, verdict_of
from tests.experiments.reproduce.made_claims import made

MISSED = Finding((at_most("x", 2.0, 1.0),), "none", 1, 0.0, "It is 2.")
FULL, SMALL = "as published", "not reproduced at this size"
CONFIG = {"x": 1, "limit": 2, "seeds": 10, "start": 0}


def claim(**changes):
    return made(**{"full": CONFIG, "quick": {**CONFIG, "seeds": 2}, **changes})


@pytest.mark.parametrize("kind", ["theorem", "figure", "question"])
def test_what_is_recalled_is_undecided_and_never_fails(kind):
    verdict, reason = verdict_of(claim(kind=kind, trust="as recalled"), CONFIG, MISSED)
    assert verdict == "undecided" and "from memory" in reason and reason.endswith("It is 2.")
    assert verdict_of(claim(kind="theorem", trust="read"), CONFIG, MISSED) == ("fails", "It is 2.")


@pytest.mark.parametrize(
    ("size", "config", "verdict"),
    [
        (FULL, CONFIG, "fails"),
        (f"{FULL}, and longer", redrawn(CONFIG, instances=20, first=7), "fails"),
        (FULL, redrawn(CONFIG, instances=9), SMALL),
        (FULL, {**CONFIG, "x": 0}, SMALL),
        ("10 of 500 instances", CONFIG, SMALL),
        ("10 of 500 instances", redrawn(CONFIG, instances=500), "fails"),
        ("10 of 500 instances, shorter", redrawn(CONFIG, instances=500), SMALL),
        ("", CONFIG, "fails"),
    ],
)
def test_a_figure_that_is_run_smaller_does_not_fail(size, config, verdict):
    figure = claim(kind="figure", trust="read", size=size)
    found, reason = verdict_of(figure, config, MISSED)
    assert found == verdict and ("smaller than the published" in reason) == (verdict == SMALL)
    # Of a theorem no size is published: one instance is enough.
    assert verdict_of(claim(kind="theorem", trust="read"), config, MISSED)[0] == "fails"


def test_what_is_met_holds_whatever_it_is_known_from():
    met = Finding((at_most("x", 0.0, 1.0),), "none", 1, 0.0)
    assert verdict_of(claim(trust="as recalled", size="small"), CONFIG, met) == ("holds", "")


def test_only_these_statements_are_from_memory():
    recalled = {c.id for c in CLAIMS.values() if c.trust == "as recalled" and c.paper in "ABC"}
    assert recalled == {"A.nonlinear-head-path", "C.joint-mirror-path", "C.mirror-rates"}

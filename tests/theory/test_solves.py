"""An outcome solves each problem once: premises, comparison, optimality and proof share it."""

from dataclasses import replace

import numpy as np
import pytest

import attsvm
from attsvm import ConvergenceWarning, Tokens
from attsvm.datasets.instances import sphere_arrays
from attsvm.solvers import solve as front

a = sphere_arrays(3, 4, 4, seed=1)
TOKENS, V = Tokens(a["X"], queries=a["z"], labels=a["y"]), a["v"]
BEST = attsvm.Selection.best(TOKENS, V).indices
WORST = (TOKENS.labels[:, None] * (TOKENS.X @ V)).argmin(axis=1)


def far(alpha):
    """A large matrix that selects these tokens."""
    return 1e6 * attsvm.solve(attsvm.Problem.of(TOKENS, alpha)).W


@pytest.fixture
def solves(monkeypatch):
    """Every problem that a solver is given: its norm, and what it is made of."""
    given, run = [], front._run

    def counted(method, problem, norm, *rest):
        parts = problem.keys, problem.queries, problem.hi, problem.lo, problem.query, problem.b
        given.append((norm.name, *(x.tobytes() for x in parts)))
        return run(method, problem, norm, *rest)

    monkeypatch.setattr(front, "_run", counted)
    return given


@pytest.mark.parametrize(
    ("alpha", "told", "norms"),
    [
        (BEST, {"optimizer": "ngd", "lr": 0.5}, ["frobenius"]),
        (BEST, {"optimizer": "gd", "lr": 0.5}, ["frobenius"]),
        (BEST, {"optimizer": "nmirror:3", "lr": 0.5}, ["frobenius", "l3"]),
        (BEST, {"optimizer": "ngd", "lr": 0.5, "norm": "nuclear"}, ["frobenius", "nuclear"]),
        (
            WORST,
            {"optimizer": "ngd", "lr": 0.5},
            ["frobenius", "frobenius"],
        ),  # best and selected tokens
        (WORST, {}, ["frobenius"]),  # no optimizer: no premise on the best tokens
    ],
)
def test_each_problem_is_solved_once(solves, alpha, told, norms):
    W = far(alpha)
    solves.clear()
    found = attsvm.outcome(W, TOKENS, V, **told)
    assert found.selection.tolist() == alpha.tolist() and found.optimality is not None
    assert (found.proof is not None) == ("lr" in told)
    assert [norm for norm, *_ in solves] == norms and len(set(solves)) == len(norms)
    assert found.optimality.certificate is found.certificate


def test_factors_are_solved_once_in_each_norm(solves):
    K = np.random.default_rng(0).standard_normal((4, 1))
    found = attsvm.outcome({"K": K, "Q": K}, TOKENS, V, optimizer="ngd")
    norms = [norm for norm, *_ in solves]
    assert sorted(norms) == ["frobenius", "nuclear"] and found.certificate.norm.name == "nuclear"


@pytest.mark.parametrize("v", [V, V - 2 * a["X"][0, 0]])
def test_a_trained_decoder_repeats_no_solve(solves, v):
    W = far(BEST)
    solves.clear()
    found = attsvm.outcome({"W": W, "v": v}, TOKENS, optimizer="gd")
    assert found.certificate is not None and len(set(solves)) == len(solves) >= 2


def test_a_solve_that_stops_early_is_said_once(monkeypatch):
    W, run = far(BEST), front._run

    def stopped(*given):
        answer = run(*given)
        return replace(answer, multipliers=0 * answer.multipliers)  # no bound from below

    monkeypatch.setattr(front, "_run", stopped)
    with pytest.warns(ConvergenceWarning, match="asked for") as said:
        found = attsvm.outcome(W, TOKENS, V, optimizer="ngd", lr=0.5)
    assert found.certificate.status == "stalled" and len(said) == 1

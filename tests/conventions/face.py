"""The public face as a typed program uses it: checked strictly by `make check`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import attsvm

Floats = NDArray[np.float64]


class Weighted(attsvm.Norm):
    """(Σ s_i W_ij²)^½."""

    name = "weighted"

    def value(self, W: Any) -> Any:
        return np.sqrt(np.square(W).sum(axis=(-2, -1)))

    def dual(self, G: Any) -> Any:
        return self.value(G)

    def dual_maximizer(self, G: Any) -> Floats:
        return np.asarray(G / self.value(G)[..., None, None])

    def rounding(self, shape: tuple[int, int]) -> float:
        return 1e-13


def by_hand(problem: attsvm.Problem, norm: attsvm.Norm, *, tol: float) -> attsvm.Answer:
    """A solver of one's own."""
    return attsvm.Answer(None, np.zeros(problem.m), np.zeros(problem.ties))


def certificates(X: Floats, z: Floats) -> list[attsvm.Certificate]:
    """Everything that ends in a certificate."""
    tokens: attsvm.Tokens = attsvm.Tokens(X, queries=z)
    problem: attsvm.Problem = attsvm.Problem.of(tokens, [0, 1])
    best: attsvm.Certificate = attsvm.solve(problem, Weighted(), tol=1e-6, solver=by_hand)
    check: attsvm.Check = best.verify()
    tight: attsvm.Tight = best.tight
    choice: attsvm.SetChoice = attsvm.solve_sets(tokens, [[0, 1], [0]], "l1")
    many: list[attsvm.Certificate] = attsvm.solve_many([problem, problem], "nuclear")
    given = attsvm.certify(problem, "max", best.W, best.multipliers)
    lower: float = given.lower if check.ok and tight.radius > 0 else 0.0
    return [best.require(), choice.certificate, *many] if lower else [given]


def theory(X: Floats, v: Floats) -> tuple[str, float]:
    """Everything that says what training will do."""
    tokens = attsvm.Tokens(X)
    verdict: attsvm.Optimality = attsvm.optimality(tokens, attsvm.Selection.best(tokens, v), v)
    witness: attsvm.Witness | None = next(iter(verdict.witnesses), None)
    optima: attsvm.Optima = attsvm.local_optima(tokens, v)
    path: attsvm.RegPath = attsvm.regpath(tokens, model="prompt", head=v, radii=[1.0, 10.0])
    limit: attsvm.Limit = attsvm.predict("prompt", "gd")
    share = float(attsvm.measures.margin_share(path, verdict.certificate))
    kind: str = verdict.kind if witness is None else limit.status
    return kind, share + optima.total


def training(X: Floats, v: Floats) -> attsvm.Outcome:
    """A run and its end."""
    tokens = attsvm.Tokens(X)
    path: attsvm.Path = attsvm.train(
        tokens, model="prompt", optimizer="gd", head=v, lr=0.1, steps=10
    )
    own: attsvm.Outcome = attsvm.outcome(v, tokens, v, optimizer="gd", lr=0.1, loss="logistic")
    kept: attsvm.Selection = attsvm.Selection.attended(tokens, own.W)
    bound: attsvm.Certificate = attsvm.certify(attsvm.Problem.of(tokens, kept), "l1", own.W)
    surely: bool = own.limit.established and bound.gap < 1
    return own if surely else attsvm.outcome(path, tokens, v)

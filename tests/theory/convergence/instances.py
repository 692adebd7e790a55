"""Instances of every kind, runs on them, and the first W of each run that is proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm import Tokens, train
from attsvm.theory.convergence.proof import ConvergenceProof
from attsvm.theory.convergence.prove import prover
from attsvm.theory.convergence.prover import Prover

Array = Any
LOSSES = ("logistic", "exponential", "linear")


def unit(x: Array) -> Array:
    """Vectors of length 1 along the last axis."""
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def instance(kind: str, seed: int, shape: tuple[int, int, int] = (6, 8, 10)) -> tuple[Tokens, Any]:
    """Tokens and a unit head: sphere, gaussian, correlated, prompt, masked or keys."""
    rng = np.random.default_rng([seed, sum(map(ord, kind))])
    n, T, d = shape
    X = rng.standard_normal((n, T, d))
    if kind == "correlated":
        X = unit(rng.standard_normal(d)) + 0.5 * unit(X)
    elif kind != "gaussian":
        X = unit(X)
    y = rng.choice([-1.0, 1.0], n)
    v = unit(rng.standard_normal(d))
    if kind == "prompt":
        return Tokens(X, labels=y), v
    mask = None
    if kind == "masked":
        mask = np.arange(T) < rng.integers(2, T + 1, n)[:, None]
    keys = unit(rng.standard_normal((n, T, d))) if kind == "keys" else None
    return Tokens(X, queries=X[:, 0], labels=y, mask=mask, keys=keys), v


@dataclass(frozen=True, eq=False)
class Run:
    """An instance, its prover, and the records W (r, d, dq) at `steps` of a run on it."""

    tokens: Tokens
    v: Any
    judge: Prover
    steps: Any
    W: Any

    def first(self, every: int = 1) -> tuple[int, ConvergenceProof] | None:
        """The first record that is proved, from the first that is not seen to fail."""
        for r in range(0, len(self.steps), every):
            proof = self.judge.prove(np.ascontiguousarray(self.W[r]))
            if proof.proved:
                return r, proof
        return None


def run(kind: str, seed: int, **asked: Any) -> Run:
    """One run from N(0, 1): loss, optimizer, lr, steps and shape as asked."""
    return runs(kind, [seed], **asked)[0]


def runs(
    kind: str,
    seeds: Any,
    *,
    loss: str = "logistic",
    optimizer: str = "ngd",
    lr: float = 0.1,
    steps: int = 3000,
    shape: tuple[int, int, int] = (6, 8, 10),
) -> list[Run]:
    """Runs of many seeds as one stack."""
    made = [instance(kind, seed, shape) for seed in seeds]
    dq = made[0][0].queries.shape[1]
    first = np.stack(
        [np.random.default_rng([7, seed]).standard_normal((shape[2], dq)) for seed in seeds]
    )
    path = train(
        [tokens for tokens, _ in made],
        head=np.stack([v for _, v in made]),
        optimizer=optimizer,
        lr=lr,
        loss=loss,
        steps=steps,
        init={"W": first},
    )
    W = path.weights["W"]
    return [
        Run(
            tokens,
            v,
            prover(tokens, head=v, optimizer=optimizer, lr=lr, loss=loss),
            path.steps,
            W[:, b],
        )
        for b, (tokens, v) in enumerate(made)
    ]

"""Instances of every kind, runs on them, and the first W of each run that is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import attsvm
from attsvm import ConvergenceProof, Problem, Selection, Tokens, solve, train
from attsvm.theory.convergence.prover import Prover, prover

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


Case = Callable[[], ConvergenceProof]


def draw(seed: int, *shape: int) -> Any:
    """Standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def far_out(
    tokens: Tokens, v: Any, R: float, *, alpha: Any = None, noise: float = 0.3, **how: Any
) -> ConvergenceProof:
    """The proof of a W of norm about R near the solution's ray, of the best tokens unless told."""
    if alpha is None:
        alpha = tokens.scores(v).argmax(axis=1)
    best = solve(Problem.of(tokens, Selection.of(tokens, alpha)))
    size = np.linalg.norm(best.W)
    W = best.W / size * R
    W = W + noise * R / 100 * draw(1, *W.shape)
    return attsvm.proof_of_convergence(tokens, W, head=v, **how).require()


def one(seed: int = 0, shape: tuple[int, int, int] = (3, 4, 5), **given: Any) -> tuple[Tokens, Any]:
    """Tokens in weight form and a head."""
    n, T, d = shape
    return Tokens(draw(seed, n, T, d), queries=draw(seed + 100, n, d), **given), draw(seed + 200, d)


def prompt(seed: int = 0) -> tuple[Tokens, Any]:
    """Tokens in prompt form and a head."""
    return Tokens(draw(seed, 2, 3, 4), labels=[1, -1]), draw(seed + 200, 4)


def twice(seed: int = 0) -> tuple[Tokens, Any]:
    """Tokens of which some are in an input twice, and an input that is there twice."""
    X, Z = draw(seed, 3, 4, 5), draw(seed + 100, 3, 5)
    X[0, 3] = X[0, 2]
    X[2], Z[2] = X[1], Z[1]
    return Tokens(X, queries=Z), draw(seed + 200, 5)


def second_best(seed: int, place: int, **how: Any) -> ConvergenceProof:
    """The proof of a selection with rows that pull the wrong way."""
    tokens, v = one(seed)
    order = (-tokens.scores(v)).argsort(axis=1)
    alpha = order[:, 0].copy()
    alpha[place] = order[place, 1]
    return far_out(tokens, v, 100, alpha=alpha, noise=0.1, **how)


def scaled(power: int) -> ConvergenceProof:
    """A proof in units 2^power times larger."""
    tokens, v = one(1)
    unit = 2.0**power
    larger = Tokens(tokens.X * unit, queries=tokens.queries)
    return far_out(larger, v / unit, 40 / unit, lr=0.03 / unit)


def tied() -> ConvergenceProof:
    """A token with just the score of the kept one, whose row pulls to second order alone."""
    keys = [[[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [-0.5, 0.0]]]
    tokens = Tokens([[[1.0], [0.2], [0.3], [1.0]]], keys=keys)
    return far_out(tokens, np.ones(1), 40, lr=0.05)


MASK = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1]], bool)
FLAT = Tokens([[[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]]])  # its tight rows are dependent
SHARED = Tokens(draw(5, 2, 4, 5), queries=draw(6, 3, 5), source=[0, 1, 1], labels=[1, 1, -1])
FLAT_HEAD = np.array([0.2, 0.7])

CASES: dict[str, Case] = {
    "tube": lambda: far_out(*one(0), 40, lr=0.03),
    "tube B": lambda: far_out(*one(1), 40, lr=0.1),
    "tube gd": lambda: far_out(*one(1), 10, optimizer="gd", noise=3),
    "tube, bad rows": lambda: second_best(4, 1, lr=0.005),
    "tube, prompt": lambda: far_out(*prompt(2), 40, lr=0.01, loss="exponential"),
    "tube, mask": lambda: far_out(*one(1, mask=MASK, labels=[1, -1, 1]), 40, lr=0.01),
    "tube, twice": lambda: far_out(*twice(1), 60, lr=0.01, loss="linear"),
    "tube, keys": lambda: far_out(*one(3, keys=draw(9, 3, 4, 6)), 60, lr=0.01, loss="exponential"),
    "tube, shared": lambda: far_out(SHARED, draw(7, 5), 60, lr=0.01),
    "tube, tied": tied,
    "tube, large": lambda: scaled(100),
    "tube, small": lambda: scaled(-100),
    "cone": lambda: far_out(*one(3), 40, lr=0.3),
    "cone gd": lambda: far_out(FLAT, FLAT_HEAD, 60, optimizer="gd", noise=0.1, loss="exponential"),
    "cone, flat": lambda: far_out(FLAT, FLAT_HEAD, 60, noise=0.1),
    "level": lambda: far_out(*one(2), 3, optimizer="gd", noise=3),
    "level, linear": lambda: far_out(*one(2), 3, optimizer="gd", noise=3, loss="linear"),
    "level, flat": lambda: far_out(FLAT, FLAT_HEAD, 3, optimizer="gd", noise=0.1),
}  # fmt: skip


@cache
def proved(case: str) -> ConvergenceProof:
    """The proof of a case, computed once."""
    return CASES[case]()

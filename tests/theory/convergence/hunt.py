"""A hunt for false proofs: data built to mislead one, and long runs from every W that is proved.

    python -m tests.theory.convergence.hunt [COUNT] [FIRST]

COUNT draws from FIRST on. Small instances with nearly tight better-scoring rows, nearly dependent
and repeated rows, ties, rows of very different lengths; W near the limit ray, on the edge of what
is proved. Every proof is rechecked, its inequalities are judged on members, and the iteration is
followed with steps of the longest length that is proved, from W and from the worst members of its
inner ball. Ends with 1 if a margin is lost, a bound is passed, or the direction turns elsewhere.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np

from attsvm import Tokens
from attsvm.theory.convergence.proof import ConvergenceProof
from attsvm.theory.convergence.prover import prover
from tests.theory.convergence.members import members
from tests.theory.convergence.reference import Case, max_margin

Array = Any
# What the rounding of the reference may take from an inequality where rows are nearly dependent.
_ROUNDING = 1e-7
FAMILIES = ("plain", "nearly tight", "nearly dependent", "repeated", "ties", "lengths", "one row")


def drawn(seed: int) -> tuple[str, Tokens, Array, Array, Any]:
    """A family's name, tokens in the prompt form, a head, the selection, and the generator."""
    rng = np.random.default_rng([29, seed])
    family = FAMILIES[seed % len(FAMILIES)]
    n, T, d = int(rng.integers(1, 4)), int(rng.integers(2, 6)), int(rng.integers(2, 5))
    if family == "one row":
        n, T = 1, 2
    keys = rng.standard_normal((n, T, d))
    keys[:, 0] = 0.0
    keys[..., 0] = -np.abs(keys[..., 0]) - 0.3 * (np.arange(T) > 0)
    keys[:, 0] = 0.0
    score = rng.uniform(-1, 1, (n, T))
    score[:, 0] = score.max(axis=1) + rng.exponential(0.3, n)
    if family in ("nearly tight", "nearly dependent") and T > 2:
        # Token 2 of each input is token 1 moved along the solution, or turned, by very little.
        little = 10.0 ** -rng.uniform(1, 13)
        if family == "nearly tight":
            keys[:, 2] = keys[:, 1] * (1 + little)
        else:
            keys[:, 2] = keys[:, 1] + little * rng.standard_normal((n, d))
        score[:, 2] = score[:, 0] + rng.choice([-1.0, 1.0]) * rng.exponential(1.0, n)
    if family == "repeated" and T > 2:
        keys[:, 2] = keys[:, 1]
        score[:, 2] = score[:, 0] + rng.uniform(-1, 1, n)
    if family == "ties":
        score[:, -1] = score[:, 0]
    if family == "lengths":
        keys *= 10.0 ** rng.uniform(-3, 3, (n, T, 1))
    # Values in two coordinates, so that scores are exact where they are equal.
    X = np.zeros((n, T, 2))
    X[..., 0] = score
    X[..., 1] = rng.standard_normal((n, T))
    alpha = np.zeros(n, dtype=int)
    labels = np.ones(n)
    return family, Tokens(X, keys=keys, labels=labels), np.array([1.0, 0.0]), alpha, rng


def tried(seed: int) -> tuple[str, list[str], Counter[str]]:
    """What is wrong with the proofs of one draw, in words, and what came of each W."""
    family, tokens, v, alpha, rng = drawn(seed)
    loss = ("logistic", "exponential", "linear")[int(rng.integers(3))]
    optimizer = "gd" if rng.random() < 0.25 else "ngd"
    chosen = Case.of(tokens, v, loss).at(alpha)
    solved = max_margin(chosen.a)
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    if not np.isfinite(solved.W).all() or (chosen.a @ solved.W).min() < 1 - 1e-6:
        return family, [], Counter({"infeasible": 1})
    lr = 10.0 ** rng.uniform(-3, 0.5) / np.linalg.norm(chosen.a, axis=1).max()
    judge = prover(tokens, head=v, optimizer=optimizer, lr=lr, loss=loss)
    for _ in range(4):
        # Far out the pull of a tie is beyond floats, and so is the reference.
        rho = 10.0 ** rng.uniform(0.5, 2.3 if family == "ties" else 3.5)
        shake = rng.standard_normal(solved.W.size) * solved.N * 10.0 ** rng.uniform(-2, 1.5)
        W = (rho * solved.W + shake).reshape(tokens.keys.shape[2], 1)
        found = [judge.prove(W)]
        if optimizer == "gd":
            levels = (judge.prove(x * W, explain=False, only="level") for x in (0.01, 0.1, 1.0))
            found += [level for level in levels if level.proved]
        for proof in found:
            tally[str(proof.theorem)] += 1
            if proof.proved:
                said = f"seed {seed}, {family}, {loss}, {optimizer}"
                wrong += [f"{said}: {word}" for word in faults(proof)]
    return family, wrong, tally


def faults(proof: ConvergenceProof, steps: int = 400) -> list[str]:
    """What is wrong with a proof: the recheck, members, and a run with its longest steps."""
    out = []
    if not (again := proof.verify()):
        out.append(f"the recheck says {again.reason}")
    with np.errstate(all="ignore"):
        judged = members(proof, 60)
    broken = [name for name, room in judged.room.items() if not room >= -_ROUNDING]
    out += [f"{proof.theorem}: {name} {judged.room[name]:.2e}" for name in broken]
    chosen = Case.of(proof.tokens, proof.head, proof.loss).at(proof.selection)
    solved = max_margin(chosen.a)
    W = proof.W.ravel()[None].copy()
    size = min(proof.longest_step, 1e3 * proof.lr)
    loss = chosen.excess(W)[0]
    start = off(W, solved.W)
    for _ in range(steps):
        m = chosen.margins(W)
        if not (m > 0).all() and proof.theorem != "level":
            return [*out, "a margin is lost"]
        base = m.min(axis=1)
        g = chosen.gradient(W, base)
        if proof.optimizer == "gd":
            W = W + size * np.exp(-base)[:, None] * g
        else:
            W = W + size * g / np.linalg.norm(g, axis=1, keepdims=True)
        if proof.theorem == "level":
            now = chosen.excess(W)[0]
            if not now <= loss * (1 + 1e-12):
                return [*out, f"the loss rises from {loss} to {now}"]
            loss = now
    if proof.theorem == "tube":
        bound = float(proof.bound_at(W.reshape(proof.W.shape)))
        if not off(W, solved.W) <= bound * (1 + 1e-9) + 1e-15:
            out.append(f"1 − corr is {off(W, solved.W):.3e}, the bound {bound:.3e}")
    if proof.theorem == "cone" and not off(W, solved.W) <= max(start, 1 - proof.constants["c0"]):
        out.append(f"1 − corr is {off(W, solved.W):.3e} in a cone of {proof.constants['c0']}")
    if not (chosen.margins(W) > 0).all():
        out.append("the selection has changed")
    return out


def off(W: Array, ray: Array) -> float:
    """1 − corr."""
    one, other = W.ravel() / np.linalg.norm(W), ray / np.linalg.norm(ray)
    return float(0.5 * ((one - other) ** 2).sum())


def main() -> int:
    """Print what came out for each family, and everything that is wrong."""
    given = [int(x) for x in sys.argv[1:3]]
    count, first = [*given, *(700, 0)[len(given) :]]
    tally: dict[str, Counter[str]] = {name: Counter() for name in FAMILIES}
    wrong: list[str] = []
    for seed in range(first, first + count):
        family, found, counts = tried(seed)
        tally[family] += counts
        wrong += found
    print("| family | tube | cone | level | not proved | infeasible |\n|---|---|---|---|---|---|")
    for name, counts in tally.items():
        words = ("tube", "cone", "level", "None", "infeasible")
        print(f"| {name} | " + " | ".join(str(counts[word]) for word in words) + " |")
    print(f"\nwrong: {len(wrong)}")
    for line in wrong[:40]:
        print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""References for exact arithmetic, each by another route than the library's.

Feasibility and null combinations by plain loops over Fractions, from the problem's floats; norms
by mpmath at 50 digits; float solutions by non-negative least squares.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from scipy.optimize import nnls

from attsvm.norms.rational import Exact
from attsvm.problem.problem import Problem

NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.1", "l1.75", "l3")
# Slack of the reference itself, and the promised tightness of a bound.
REFERENCE, TIGHTNESS = Fraction(1, 10**45), Fraction(1, 10**13)


def has_reference(name: str) -> bool:
    """Whether `reference` knows the norm of this name."""
    singular_or_max = ("frobenius", "nuclear", "spectral", "max")
    return name in singular_or_max or re.fullmatch(r"l[\d.]+", name) is not None


def reference(name: str, W: Exact) -> Fraction:
    """The norm to 50 digits."""
    with mpmath.workdps(50):
        M = mpmath.matrix(
            [[mpmath.mpf(v.numerator) / v.denominator for v in row] for row in W.fractions()]
        )
        sizes = [abs(v) for v in M]
        if name in ("nuclear", "spectral"):
            values = mpmath.svd_r(M, compute_uv=False)
            out = values[0] if name == "spectral" else mpmath.fsum(values)
        elif name == "max":
            out = max(sizes)
        else:
            p = {"frobenius": Fraction(2)}.get(name) or Fraction(name[1:])
            p = mpmath.mpf(p.numerator) / p.denominator
            out = mpmath.fsum(v**p for v in sizes) ** (1 / p)
        mantissa, exponent = mpmath.mpf(out).man_exp  # a norm is not negative
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def rows_of(problem: Problem) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Every row flattened to width d·dq, margins first, and the right-hand sides, in Fractions."""
    rows = []
    for hi, lo, query in zip(
        [*problem.hi, *problem.tie_hi],
        [*problem.lo, *problem.tie_lo],
        [*problem.query, *problem.tie_query],
        strict=True,
    ):
        delta = [Fraction(float(v)) for v in problem.keys[hi]]
        if lo >= 0:
            delta = [v - Fraction(float(w)) for v, w in zip(delta, problem.keys[lo], strict=True)]
        z = [Fraction(float(v)) for v in problem.queries[query]]
        rows.append([v * w for v in delta for w in z])
    return rows, [Fraction(float(v)) for v in [*problem.b, *problem.c]]


def feasible(problem: Problem, W: Exact) -> bool:
    """Whether W meets every row exactly."""
    rows, right = rows_of(problem)
    flat = W.fractions().ravel()
    values = [sum(v * w for v, w in zip(row, flat, strict=True)) for row in rows]
    m = problem.m
    return all(v >= r for v, r in zip(values[:m], right[:m], strict=True)) and all(
        v == r for v, r in zip(values[m:], right[m:], strict=True)
    )


def proves(problem: Problem, multipliers: Exact, tie_multipliers: Exact) -> bool:
    """Whether these multipliers prove exactly that no W exists."""
    rows, right = rows_of(problem)
    y = [*multipliers.fractions(), *tie_multipliers.fractions()]
    combined = [
        sum(v * w for v, w in zip(y, column, strict=True)) for column in zip(*rows, strict=True)
    ]
    level = sum(v * w for v, w in zip(y, right, strict=True))
    return min(y[: problem.m], default=0) >= 0 and not any(combined) and level > 0


def sphere(rng: np.random.Generator, *shape: int) -> Any:
    X = rng.standard_normal(shape)
    return X / np.linalg.norm(X, axis=-1, keepdims=True)


def drawn(n: int, T: int, d: int, *, seed: int, prompt: bool = False, **options: Any) -> Problem:
    """n inputs of T tokens on the sphere, the first token of each selected."""
    rng = np.random.default_rng(seed)
    X = sphere(rng, n, T, d)
    Z = np.ones((n, 1)) if prompt else sphere(rng, n, d)
    D = (X[:, :1] - X[:, 1:]).reshape(-1, d)
    return Problem.from_rows(D, np.repeat(Z, T - 1, axis=0), **options)


def least_distance(problem: Problem) -> tuple[Any, Any]:
    """A float Frobenius solution W (None if infeasible) and multipliers, without ties."""
    d, dq = problem.shape
    A = np.einsum("ki,kj->kij", problem.differences(), problem.queries[problem.query])
    E = np.concatenate([A.reshape(-1, d * dq), problem.b[:, None]], axis=1).T
    target = np.eye(len(E))[-1]
    u = nnls(E, target)[0]
    r = target - E @ u
    if r[-1] < 1e-12:
        return None, u
    return (-r[:-1] / r[-1]).reshape(d, dq), u / r[-1]

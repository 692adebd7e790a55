"""Families whose least norm is known exactly, and the same matrix is best in every norm.

W* = u vᵀ with entries ±1 is its own multiplier: rows are drawn in whole numbers, and one margin is
chosen as what is missing, so that the multipliers combine all rows to W* itself. Then

    least norm = ‖W*‖² / ‖W*‖_dual = ‖W*‖

in every entrywise norm, and, as the rank is one, in the nuclear and the spectral norm. Copies of
rows lie 2^-k away from them, exactly, and the multipliers of a row and its copy are about 2^k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm import Problem
from tests.certificate.case import Case


def _signs(draw: Any, d: int) -> Any:
    return draw.choice([-1, 1], d)


def _across(draw: Any, count: int, u: Any, *, level: bool) -> Any:
    """Whole-number rows Δ (count, d), orthogonal to u unless they have a level."""
    R = draw.integers(-3, 4, (count, len(u)))
    if not level:
        R[:, 0] -= u[0] * (R @ u)
    return R


def _built(
    draw: Any, u: Any, v: Any, R: Any, N: Any, k: int, *, ties: bool, alone: bool = True
) -> Case:
    """Rows R and copies R + 2^-k N with the query v, and the margin that makes u vᵀ the answer.

    ties: rows are ties; else margins with right-hand side 0, the copies turned round.
    alone: sometimes further loose margins stand beside that one.
    """
    count = len(R)
    far = 1 << k
    alpha = draw.integers(-2, 3, count)
    beta = draw.integers(1, 3, count)
    if ties:
        beta = beta * draw.choice([-1, 1], count)
        # α R + β 2^k (copy − R) = α R + β N
        first, second, copies = alpha - beta * far, beta * far, R * 1.0 + N / far
    else:
        alpha = np.abs(alpha)
        # (α + β 2^k) R + β 2^k (−R + 2^-k N) = α R + β N
        first, second, copies = alpha + beta * far, beta * far, -R + N / far
    margin = u - alpha @ R - beta @ N
    levels = (R @ u) * float(v @ v), (copies @ u) * float(v @ v)
    b = float(margin @ u) * float(v @ v)
    if b < 0:
        return Case(None, refused="the margin would be negative: drawn with no level instead")
    D = [margin]
    if not alone:
        D += [s * u * int(draw.integers(2, 4)) for s in (1,)]
    D, right = np.array(D, dtype=float), [b] + [float(len(D) > 1)] * (len(D) - 1)
    rows, queries = np.concatenate([R, copies]).astype(float), np.tile(v, (2 * count, 1)) * 1.0
    Z = np.tile(v, (len(D), 1)) * 1.0
    W = np.outer(u, v).astype(float)
    rest = [0] * (len(D) - 1)
    weights = np.array([1, *rest, *(int(x) for x in first), *(int(x) for x in second)], object)
    if ties:
        c = np.concatenate(levels)
        problem = Problem.from_rows(D, Z, b=right, ties=rows, tie_queries=queries, c=c)
    else:
        problem = Problem.from_rows(
            np.concatenate([D, rows]), np.concatenate([Z, queries]),
            b=[*right, *np.concatenate(levels)],
        )  # fmt: skip
    return Case(problem, feasible=True, points=[W], weights=[weights], least=W)


def known_ties(draw: Any) -> Case:
    """Ties and their copies at 2^-k, with right-hand sides 0 or whole numbers."""
    d, dq = int(draw.integers(2, 6)), int(draw.choice([1, 1, 2, 3]))
    u, v = _signs(draw, d), _signs(draw, dq)
    level = bool(draw.random() < 0.3)
    while True:
        R = _across(draw, int(draw.integers(1, 3)), u, level=level)
        N = _across(draw, len(R), u, level=level)
        k = int(draw.integers(3, 49))
        made = _built(draw, u, v, R, N, k, ties=True, alone=draw.random() < 0.6)
        if made.problem is not None:
            return made


def known_zero_rows(draw: Any) -> Case:
    """Margins of right-hand side 0 and their near-opposites at 2^-k."""
    d, dq = int(draw.integers(2, 6)), int(draw.choice([1, 1, 2, 3]))
    u, v = _signs(draw, d), _signs(draw, dq)
    R = _across(draw, int(draw.integers(1, 3)), u, level=False)
    N = _across(draw, len(R), u, level=False)
    k = int(draw.integers(3, 49))
    return _built(draw, u, v, R, N, k, ties=False, alone=draw.random() < 0.6)


def copied_ties(draw: Any) -> Case:
    """Many ties, half of them copies at 2^-30, about 1e-9."""
    half = int(draw.choice([8, 8, 12, 12, 16, 30]))
    return copied(draw, half)


def copied(draw: Any, half: int, d: int | None = None) -> Case:
    """`half` ties and as many copies of them in d dimensions, by default a few more than ties."""
    u, v = _signs(draw, d or 2 * half + 3), np.array([1])
    R, N = _across(draw, half, u, level=False), _across(draw, half, u, level=False)
    return _built(draw, u, v, R, N, 30, ties=True)


SIGNS = (known_ties, known_zero_rows)

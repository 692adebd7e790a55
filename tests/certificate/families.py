"""Families of problems built to break a certificate: one whole number, one case.

Each maker takes a generator of random numbers and returns a Case. Wherever it can be it is built
backwards from a known answer: `feasible` and `points` are premises, and the judge asserts them in
exact arithmetic before any claim is looked at.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from attsvm import ConvergenceWarning, Problem, Selection, Tokens, solve
from attsvm.errors import AttsvmError
from tests.torture.instances import KINDS as TORTURE
from tests.torture.instances import case as torture_case

Pair = tuple[Any, Any, Any]  # W, multipliers, tie multipliers


@dataclass
class Case:
    """A problem; `feasible`, `points` and `weights` are known of it from how it was built.

    points: matrices that meet every row. weights: multipliers of the rows in whole numbers. least:
    the matrix of least norm in every norm, where it is known. hand: for a norm, the pair given to
    `certify`; without it the problem is solved. budget: the C of a soft margin. route: another
    way to the Frobenius solution than the default. refused: the sentence with which the library
    would not take the data.
    """

    problem: Problem | None
    feasible: bool | None = None
    points: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    least: Any = None
    hand: Callable[[str], Pair] | None = None
    budget: float | None = None
    route: str = ""
    note: str = ""
    refused: str = ""
    family: str = ""
    seed: int = -1


def distances(draw: Any, base: Any, noise: Any) -> Any:
    """base moved along noise by 10^-k, k from 3 to 17, or by one rounding."""
    k = int(draw.integers(2, 18))
    if k == 2:
        return np.nextafter(base, np.where(noise > 0, np.inf, -np.inf))
    return base + 10.0**-k * noise


def whole_normal(draw: Any, shape: tuple[int, ...]) -> Any:
    """Small whole numbers, about normal."""
    return np.round(2 * draw.standard_normal(shape))


def near_ties(draw: Any) -> Case:
    """A tie and its copy at a small distance: both hold only on a smaller space."""
    d, dq = int(draw.integers(2, 5)), int(draw.choice([1, 1, 2, 3]))
    m, l = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    D, E = draw.standard_normal((m, d)), draw.standard_normal((l, d))
    Z, Y = _queries(draw, m, dq), _queries(draw, l, dq)
    if draw.random() < 0.3:
        D, E = np.round(2 * D), np.round(2 * E)
    copies = draw.integers(0, l, int(draw.integers(1, 3)))
    noise = draw.standard_normal((len(copies), d)) * (draw.random((len(copies), d)) < 0.7)
    E = np.concatenate([E, distances(draw, E[copies], noise)])
    Y = np.concatenate([Y, Y[copies]])
    c = None
    if draw.random() < 0.3:
        c = np.round(draw.standard_normal(l), 1)
        c = np.concatenate([c, c[copies]])
    if dq == 1:
        return Case(Problem.from_rows(D, ties=E, c=c))
    return Case(Problem.from_rows(D, Z, ties=E, tie_queries=Y, c=c))


def contradicting_ties(draw: Any) -> Case:
    """A tie twice, with right-hand sides that differ: no W meets both, however close they are."""
    d, dq = int(draw.integers(2, 5)), int(draw.choice([1, 2, 3]))
    m, l = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    D, E = draw.standard_normal((m, d)), draw.standard_normal((l, d))
    Z, Y = _queries(draw, m, dq), _queries(draw, l, dq)
    c = draw.choice([0.0, 0.1, 1.0, -2.0, 1e3], l)
    moved = distances(draw, c[:1], np.array([draw.choice([-1.0, 1.0])]))
    size = draw.choice([1.0, 2.0, 0.5, -1.0])
    E, Y = np.concatenate([E, size * E[:1]]), np.concatenate([Y, Y[:1]])
    problem = Problem.from_rows(D, Z, ties=E, tie_queries=Y, c=np.append(c, size * moved))
    # Half of the least float is zero: then the two agree after all.
    return Case(problem, feasible=bool(size * moved[0] == size * c[0]) and None)


def opposite_rows(draw: Any) -> Case:
    """r·W ≥ 1 and (−r + 10^-k noise)·W ≥ 1: feasible only with a norm of about 10^k."""
    d, dq = int(draw.integers(2, 5)), int(draw.choice([1, 1, 2, 3]))
    k = int(draw.integers(1, 3))
    R = draw.standard_normal((k, d))
    if draw.random() < 0.3:
        R = np.round(2 * R)
    back = distances(draw, -R, draw.standard_normal((k, d)))
    extra = draw.standard_normal((int(draw.integers(0, 3)), d))
    z = _queries(draw, k, dq)
    Z = np.concatenate([z, z, _queries(draw, len(extra), dq)])
    b = draw.choice([1.0, 1.0, 0.5], len(Z))
    return Case(Problem.from_rows(np.concatenate([R, back, extra]), Z, b=b))


def huge_norms(draw: Any) -> Case:
    """Feasible by construction, with a least norm of 1e14 and far above."""
    d = int(draw.integers(2, 5))
    far = 2.0 ** int(draw.integers(47, 200))
    # e1·W ≥ 1 and (−e1 + e2/far)·W ≥ 1 need W2 ≥ 2 far; (1, 2 far) does it exactly.
    D = np.zeros((2, d))
    D[:, 0], D[1, 1] = (1.0, -1.0), 1.0 / far
    point = np.zeros((d, 1))
    point[:2, 0] = 1.0, 2.0 * far
    if d > 2:
        extra = np.zeros((1, d))
        extra[0, 1:3] = draw.choice([-1.0, 1.0], 2)
        if extra[0, 1] < 0:
            point[2, 0] = extra[0, 2] * 4.0 * far
        elif extra[0, 2] < 0:
            extra[0, 2] = 1.0
        D = np.concatenate([D, extra])
    if draw.random() < 0.4:
        ties = np.zeros((1, d))
        ties[0, :2] = -2.0 * far, 1.0
        return Case(Problem.from_rows(D[:1], ties=ties, b=[far]), feasible=True)
    return Case(Problem.from_rows(D), feasible=True, points=[point])


def extreme_scales(draw: Any) -> Case:
    """Keys, queries and right-hand sides each at 1e-75, 1 or 1e75, also mixed in one array."""
    n, T, d = int(draw.integers(1, 3)), int(draw.integers(2, 4)), int(draw.integers(1, 4))
    dq = int(draw.integers(1, 3))

    def scale(shape: tuple[int, ...]) -> Any:
        top = draw.choice([9e-76, 1.1e-75, 1e-60, 1.0, 1e60, 9e74])
        if draw.random() < 0.3:
            return draw.choice([1e-75, 1e-20, 1.0, 1e20, 9e74], shape)
        return np.full(shape, top)

    X = np.clip(draw.standard_normal((n, T, d)), -1, 1) * scale((n, T, d))
    z = np.clip(draw.standard_normal((n, dq)), -1, 1) * scale((n, dq))
    b = draw.choice([1.0, 0.5], n) * scale((n,))
    if draw.random() < 0.2:
        b[0] = 0.0
    kept = np.zeros((n, T), dtype=bool)
    kept[:, 0] = True
    if T > 2 and draw.random() < 0.3:
        kept[:, 1] = True

    tokens = Tokens(X, queries=z)
    return Case(Problem.of(tokens, Selection.of(tokens, kept), b=b))


def soft_margins(draw: Any) -> Case:
    """Soft margins with budgets from 1e-300 to 1e300, separable or not."""
    d, dq, m = int(draw.integers(1, 4)), int(draw.choice([1, 1, 2])), int(draw.integers(1, 6))
    D, Z = draw.standard_normal((m, d)), _queries(draw, m, dq)
    ties, Y, c = None, None, None
    if draw.random() < 0.4:
        ties, Y = draw.standard_normal((1, d)), _queries(draw, 1, dq)
        if draw.random() < 0.4:
            ties = np.concatenate([ties, distances(draw, ties, draw.standard_normal((1, d)))])
            Y = np.concatenate([Y, Y])
        c = np.zeros(len(ties)) if draw.random() < 0.6 else np.full(len(ties), 0.1)
    if draw.random() < 0.3:
        D[-1] = -D[0]
    b = draw.choice([0.0, 1.0, 1.0], m)
    C = 10.0 ** draw.choice([-300, -200, -100, -20, -8, -3, 0, 1, 3, 8, 20, 100, 200, 300])
    problem = Problem.from_rows(D, Z, b=b, ties=ties, tie_queries=Y, c=c)
    return Case(problem, budget=float(C))


def torture(draw: Any) -> Case:
    """One of the kinds of the torture tests, the small ones."""
    seed = int(draw.integers(10**6))
    while True:
        problem = torture_case(seed).problem
        if problem.m + problem.ties <= 24 and problem.shape[0] * problem.shape[1] <= 40:
            return Case(problem, note=TORTURE[seed % len(TORTURE)])
        seed += len(TORTURE)


def _queries(draw: Any, count: int, dq: int) -> Any:
    return np.ones((count, 1)) if dq == 1 else draw.standard_normal((count, dq))


# Ties with right-hand sides other than zero: decimals, log-ratios, and intervals.


def levelled_ties(draw: Any) -> Case:
    """Ties e_i, e_j and whole combinations of them, with decimal right-hand sides.

    The sums of decimals are not exact in floats: (.1, .2, .3) on e1, e2, e1 + e2 contradict.
    With right-hand sides taken in quarters they are consistent exactly.
    """
    d = int(draw.integers(2, 5))
    exact = draw.random() < 0.4
    w = draw.integers(-8, 9, d) / (4.0 if exact else 10.0)
    if draw.random() < 0.2:
        w, exact = np.array([0.1, 0.2, *w[2:]]), False
    mix = draw.integers(-2, 3, (int(draw.integers(1, 4)), d)).astype(float)
    mix[0] = np.arange(d) < 2
    ties = np.concatenate([np.eye(d), mix])
    c = ties @ w
    if not exact:
        c = np.round(c, 6)
    m = int(draw.integers(0, 3))
    if m == 0:
        problem = Problem.from_rows(np.empty((0, d)), ties=ties, c=c)
        return Case(problem, points=[w[:, None]] if exact else [])
    D = draw.standard_normal((m, d))
    return Case(Problem.from_rows(D, ties=ties, c=c, b=np.full(m, draw.choice([0.0, 1.0]))))


def finite_part(draw: Any) -> Case:
    """Log-ratios as right-hand sides on whole-number tokens, more kept than dimensions."""
    d, n = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    T = d + int(draw.integers(1, 4))
    X = draw.integers(-2, 3, (n, T, d)).astype(float)
    if draw.random() < 0.4:
        X = draw.standard_normal(X.shape)
    z = draw.integers(1, 3, (n, 1)).astype(float)
    W = draw.standard_normal((d, 1))
    score = np.einsum("ntd,de,ne->nt", X, W, z)
    attention = np.exp(score - score.max(axis=1, keepdims=True))
    attention /= attention.sum(axis=1, keepdims=True)
    tokens = Tokens(X, queries=z)
    kept = Selection.of(tokens, np.ones((n, T), dtype=bool))
    return Case(Problem.finite(tokens, kept, attention))


def interval_ties(draw: Any) -> Case:
    """Ties within c_error of their right-hand sides: wide enough for a known W, or one too narrow.

    Rows are whole numbers, W is decimal, c is what floats make of their product; the error is what
    that misses, exactly, rounded up or down.
    """
    d, l, m = int(draw.integers(1, 4)), int(draw.integers(1, 7)), int(draw.integers(0, 3))
    w = np.round(draw.standard_normal(d), 1)
    E = draw.integers(-3, 4, (l, d)).astype(float)
    c = np.round(E @ w, 6)
    missed = [
        abs(sum(Fraction(float(x)) * Fraction(float(v)) for x, v in zip(row, w, strict=True)) - f)
        for row, f in zip(E, map(Fraction, c.tolist()), strict=True)
    ]
    error = np.array([np.nextafter(float(e), 1.0) if e else 0.0 for e in missed])
    grown = float(draw.choice([1.0, 1.0, 1.0, 4.0, 1e6, 1e12, 0.5]))
    D = draw.integers(-2, 3, (m, d)).astype(float)
    problem = Problem.from_rows(D, b=np.zeros(m), ties=E, c=c)
    problem = replace(problem, c_error=error * grown)
    signs = [
        sum(Fraction(float(x)) * Fraction(float(v)) for x, v in zip(row, w, strict=True)) >= 0
        for row in D
    ]
    known = grown >= 1 and all(signs)
    return Case(problem, feasible=True if known else None, points=[w[:, None]] if known else [])


# Pairs (W, λ) handed to `certify`: scaled out of reach, garbage, or half of them right.


FACTORS = (
    1e-320, 5e-324, 1e-300, 1e-200, 1e-170, 1e-160, 1e-154, 1e-140, 1e-100, 1e-30, 1.0,
    1e30, 1e100, 1e150, 1e160, 1e200, 1e300,
)  # fmt: skip


def _small(draw: Any) -> tuple[Problem, Any]:
    """A small problem of whole numbers with a W that meets it exactly; sometimes with a tie."""
    d, dq, m = int(draw.integers(1, 4)), int(draw.integers(1, 3)), int(draw.integers(1, 5))
    W = draw.integers(-3, 4, (d, dq)).astype(float)
    W[0, 0] = W[0, 0] or 1.0
    D, Z = whole_normal(draw, (m, d)), whole_normal(draw, (m, dq))
    D[:, 0], Z[:, 0] = D[:, 0] + 0.5, Z[:, 0] + 0.5  # no row is zero
    score = np.einsum("ki,ij,kj->k", D, W, Z)
    D = D * np.where(score < 0, -1.0, 1.0)[:, None]
    b = np.abs(score)
    if draw.random() < 0.5:
        b = np.minimum(b, 1.0)
    if d > 1 and draw.random() < 0.3:
        tie = np.zeros((1, d))
        tie[0, :2] = W[1, 0], -W[0, 0]
        level = float(tie[0] @ W[:, 0])
        y = np.zeros((1, dq))
        y[0, 0] = 1.0
        return Problem.from_rows(D, Z, b=b, ties=tie, tie_queries=y, c=[level]), W
    return Problem.from_rows(D, Z, b=b), W


def _solved(problem: Problem, norm: str) -> Pair:
    """The pair of the library's own solution; zeros where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve(problem, norm)
    W = np.zeros(problem.shape) if best.W is None else best.W
    return W, best.multipliers, best.tie_multipliers


def scaled_pairs(draw: Any) -> Case:
    """The solver's own pair with W, λ, both, or one entry of them scaled by 1e-320 to 1e300."""
    problem, point = _small(draw)
    how, entry = int(draw.integers(5)), float(draw.random())
    left, right = (float(f) for f in draw.choice(FACTORS, 2))

    def hand(norm: str) -> Pair:
        W, lam, mu = (np.array(part) for part in _solved(problem, norm))
        with np.errstate(all="ignore"):
            if how in (0, 2):
                W = W * left
            if how in (1, 2):
                other = left if how == 2 else right
                lam, mu = lam * other, mu * other
            if how == 3:
                W.flat[int(entry * W.size)] *= left
            if how == 4 and lam.size:
                lam[int(entry * lam.size)] *= right
        return W, lam, mu

    return Case(problem, feasible=True, points=[point], hand=hand)


def garbage_pairs(draw: Any) -> Case:
    """Random W and λ on any problem, infinities and no numbers among them."""
    problem, point = _small(draw)

    def noise(shape: Any) -> Any:
        out = draw.standard_normal(shape) * draw.choice(FACTORS[:-1], shape)
        wild = draw.random(shape) < 0.05
        return np.where(wild, draw.choice([np.inf, -np.inf, np.nan], shape), out)

    W = noise(problem.shape)
    lam, mu = noise(problem.m), noise(problem.ties)
    return Case(problem, feasible=True, points=[point], hand=lambda norm: (W, lam, mu))


def soft_pairs(draw: Any) -> Case:
    """Pairs of every size for a soft margin with a budget of any size."""
    problem, point = _small(draw)
    C = float(10.0 ** draw.choice([-300, -150, -20, 0, 3, 20, 150, 300]))
    left = float(draw.choice(FACTORS))
    share = draw.choice([0.0, 1e-320, 0.5, 1.0, 2.0], problem.m)
    mu = draw.standard_normal(problem.ties) * draw.choice([0.0, 1e-310, 1.0, 1e100])
    with np.errstate(all="ignore"):
        W = point * left if draw.random() < 0.6 else draw.standard_normal(problem.shape) * left
        lam = share * (C if draw.random() < 0.5 else left)
    return Case(problem, feasible=True, points=[point], hand=lambda norm: (W, lam, mu), budget=C)


# Families whose least norm is known exactly, and the same matrix is best in every norm.
# W* = u vᵀ with entries ±1 is its own multiplier: rows are drawn in whole numbers, and one margin
# is chosen as what is missing, so that the multipliers combine all rows to W* itself. Then
#     least norm = ‖W*‖² / ‖W*‖_dual = ‖W*‖
# in every entrywise norm, and, as the rank is one, in the nuclear and the spectral norm. Copies of
# rows lie 2^-k away from them, exactly, and the multipliers of a row and its copy are about 2^k.


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


FAMILIES = {
    maker.__name__.replace("_", "-"): maker
    for maker in (
        near_ties, contradicting_ties, opposite_rows, huge_norms, extreme_scales,
        soft_margins, torture, levelled_ties, finite_part, interval_ties, scaled_pairs,
        garbage_pairs, soft_pairs, known_ties, known_zero_rows,
    )
}  # fmt: skip
# Families whose problems are large: one case in so many is taken from them.
LARGE = {"copied-ties": copied_ties}
RARE = 199


# The ways to the Frobenius solution that cases take in turn; '' is the default.
ROUTES = ("", "many", "", "active-set", "", "cutting-plane", "newton")


def case(seed: int) -> Case:
    """The case of this seed: family and numbers are drawn from it."""
    names = list(FAMILIES)
    name = names[seed % len(names)]
    maker = FAMILIES[name]
    if seed % RARE == RARE - 1:
        name, maker = next(iter(LARGE.items()))
    try:
        made = maker(np.random.default_rng([31, seed]))
    except AttsvmError as error:
        made = Case(None, refused=str(error))
    made.family, made.seed = name, seed
    made.route = ROUTES[seed // len(names) % len(ROUTES)]
    return made

"""Families of problems built to break a certificate: one whole number, one case.

Each maker takes a generator of random numbers and returns a Case. Wherever it can be it is built
backwards from a known answer: `feasible` and `points` are premises, and the judge asserts them in
exact arithmetic before any claim is looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm import Problem, Selection, Tokens
from attsvm.errors import AttsvmError
from tests.certificate.case import Case, distances, whole_normal
from tests.certificate.families_levels import LEVELS
from tests.certificate.families_pairs import PAIRS
from tests.certificate.families_signs import SIGNS, copied_ties
from tests.torture.instances import KINDS as TORTURE
from tests.torture.instances import case as torture_case


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


def near_zero_rows(draw: Any) -> Case:
    """Rows r·W ≥ 0 and (−r + noise)·W ≥ 0 and a margin: a tie in all but name."""
    d, dq = int(draw.integers(2, 5)), int(draw.choice([1, 1, 2, 3]))
    k, m = int(draw.integers(1, 3)), int(draw.integers(1, 3))
    R = draw.standard_normal((k, d))
    if draw.random() < 0.3:
        R = np.round(2 * R)
    back = distances(draw, -R, draw.standard_normal((k, d)))
    D = np.concatenate([draw.standard_normal((m, d)), R, back])
    z = _queries(draw, k, dq)
    Z = np.concatenate([_queries(draw, m, dq), z, z])
    return Case(Problem.from_rows(D, Z, b=np.repeat([1.0, 0.0], [m, 2 * k])))


def twin_inputs(draw: Any) -> Case:
    """Two inputs that are equal up to rounding, two kept tokens each."""
    T, d = int(draw.integers(3, 6)), int(draw.integers(2, 5))
    X = np.repeat(draw.standard_normal((1, T, d)), 2, axis=0)
    how = int(draw.integers(3))
    if how == 0:
        X[1] = np.nextafter(X[1], draw.choice([-9.0, 9.0], X[1].shape))
    elif how == 1:
        X[1] = (X[1] * 3.0) / 3.0 + draw.standard_normal(d) * 0.0
        X[1] = X[1] + 0.1 - 0.1
    else:
        X[1] = distances(draw, X[1], draw.standard_normal(X[1].shape))
    z = None
    if draw.random() < 0.5:
        z = np.repeat(draw.standard_normal((1, int(draw.integers(1, 4)))), 2, axis=0)
        if draw.random() < 0.5:
            z[1] = np.nextafter(z[1], 9.0)
    kept = np.zeros((2, T), dtype=bool)
    kept[:, :2] = True
    if T > 3 and draw.random() < 0.3:
        kept[:, 2] = True
    tokens = Tokens(X, queries=z)
    return Case(Problem.of(tokens, Selection.of(tokens, kept)))


def dependent_ties(draw: Any) -> Case:
    """Whole-number tokens, more of them kept than there are dimensions: ties depend exactly."""
    d, n = int(draw.integers(1, 4)), int(draw.integers(1, 4))
    T = d + 2 + int(draw.integers(1, 4))
    X = draw.integers(-3, 4, (n, T, d + 1)).astype(float)
    if draw.random() < 0.7:
        X[..., -1] = 0.0  # room for the margins, in the coordinate that no kept token uses
        X[:, -1, -1] = -draw.integers(1, 4, n)
    kept = np.ones((n, T), dtype=bool)
    kept[:, -1] = False
    z = whole_normal(draw, (n, int(draw.integers(1, 3))))
    z[:, 0] = np.where(z[:, 0] == 0, 1.0, z[:, 0])
    tokens = Tokens(X, queries=z)
    return Case(Problem.of(tokens, Selection.of(tokens, kept)))


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


def grid_noise(draw: Any) -> Case:
    """Tokens on a grid of whole numbers, moved by up to 2^-30."""
    n, T, d = int(draw.integers(1, 4)), int(draw.integers(2, 6)), int(draw.integers(2, 5))
    X = draw.integers(-1, 2, (n, T, d)) + 2.0 ** -int(draw.integers(20, 53)) * draw.integers(
        -2, 3, (n, T, d)
    )
    z = None
    if draw.random() < 0.5:
        z = draw.integers(-1, 2, (n, 2)) + 2.0**-30 * draw.integers(-1, 2, (n, 2))
    tokens = Tokens(X, queries=z)
    kept = np.zeros((n, T), dtype=bool)
    kept[:, 0] = True
    if T > 2 and draw.random() < 0.4:
        kept[:, 1] = True
    return Case(Problem.of(tokens, Selection.of(tokens, kept)))


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


def planted(draw: Any) -> Case:
    """Plain problems with a known W: the ground on which nothing may stall."""
    d, dq = int(draw.integers(1, 5)), int(draw.choice([1, 2, 3]))
    m = int(draw.integers(1, 9))
    W = draw.integers(-4, 5, (d, dq)).astype(float)
    D, Z = whole_normal(draw, (m, d)), whole_normal(draw, (m, dq))
    score = np.einsum("ki,ij,kj->k", D, W, Z)
    D = D * np.where(score < 0, -1.0, 1.0)[:, None]
    return Case(Problem.from_rows(D, Z, b=np.abs(score)), feasible=True, points=[W])


def _queries(draw: Any, count: int, dq: int) -> Any:
    return np.ones((count, 1)) if dq == 1 else draw.standard_normal((count, dq))


FAMILIES = {
    maker.__name__.replace("_", "-"): maker
    for maker in (
        near_ties, contradicting_ties, near_zero_rows, twin_inputs, dependent_ties,
        opposite_rows, grid_noise, huge_norms, extreme_scales,
        soft_margins, torture, planted, *LEVELS, *PAIRS, *SIGNS,
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

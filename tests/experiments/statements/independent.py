"""Checks of found instances that share nothing with the search: loops over Fractions, mpmath.

Least-norm solutions come from trying every set of tight rows; nothing of attsvm is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import mpmath

Vector = list[Fraction]


def exact(values: Any) -> Any:
    """Nested lists of numbers, by name, as Fractions."""
    if isinstance(values, dict):
        return {name: exact(v) for name, v in values.items()}
    if isinstance(values, list | tuple):
        return [exact(v) for v in values]
    return Fraction(values)


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def solved(A: list[Vector], right: Vector) -> Vector | None:
    """x with A x = right, None where A is singular."""
    rows = [[*row, r] for row, r in zip(A, right, strict=True)]
    for i in range(len(rows)):
        pivot = next((k for k in range(i, len(rows)) if rows[k][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i and rows[k][i]:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def least(rows: list[Vector]) -> Vector | None:
    """The p of least norm with row·p ≥ 1 for all rows, by its optimality conditions."""
    for size in range(1, len(rows) + 1):
        for chosen in combinations(rows, size):
            lam = solved([[dot(a, b) for b in chosen] for a in chosen], [Fraction(1)] * size)
            if lam is None or min(lam) < 0:
                continue
            columns = list(zip(*chosen, strict=True))
            p = [dot(lam, column) for column in columns]
            if all(dot(row, p) >= 1 for row in rows):
                return p
    return None


def kept_rows(X: Any, alpha: Sequence[int]) -> list[Vector]:
    return [
        minus(x[a], t) for x, a in zip(X, alpha, strict=True) for k, t in enumerate(x) if k != a
    ]


def gamma(one: dict[str, Any]) -> list[Vector]:
    labels = one.get("y", [1] * len(one["X"]))
    return [[y * dot(t, one["v"]) for t in x] for x, y in zip(one["X"], labels, strict=True)]


def best_of(one: dict[str, Any]) -> list[int]:
    return [row.index(max(row)) for row in gamma(one)]


def no_tight_token(one: dict[str, Any]) -> bool:
    """Some input has no margin of 1 at the solution that keeps the first tokens."""
    p = least(kept_rows(one["X"], [0] * len(one["X"])))
    return p is not None and any(all(dot(minus(x[0], t), p) > 1 for t in x[1:]) for x in one["X"])


def column_of(marks: Any) -> tuple[Vector, set[int], set[int]]:
    """(column, tokens above some other, tokens below some other) of sentences, by their marks."""
    N = len(marks[0]) + 1
    over = set()
    for row in marks:
        assert row.count(2) <= 1
        top = row.index(2) if 2 in row else N - 1
        over |= {(top, t) for t in range(N) if (t == N - 1 or row[t]) and t != top}
    while more := {(a, d) for a, b in over for c, d in over if b == c} - over:
        over |= more
    assert not any(a == b for a, b in over)
    rows = [
        [Fraction((t == a) - (t == b)) for t in range(N)] for a, b in over
    ]  # the closure adds rows of margin 2, which change nothing
    u = least(rows)
    assert u is not None
    return u, {a for a, _ in over}, {b for _, b in over}


def order_falls(marks: Any) -> bool:
    """Sentences whose column ranks a token of a kind below over one of a kind above."""
    u, above, below = column_of(marks)
    rank = [2 * (t not in below and t in above) - 2 * (t not in above and t in below)
            for t in range(len(u))]  # fmt: skip
    return any(rank[a] > rank[b] and u[b] > u[a] for a, b in product(range(len(u)), repeat=2))


def column_is_off_formula(marks: Any) -> bool:
    """Sentences without confused tokens whose column is not |N|/(|O| + |N|), −|O|/(|O| + |N|)."""
    u, above, below = column_of(marks)
    assert not above & below
    size = len(above) + len(below)
    values = {**dict.fromkeys(above, Fraction(len(below), size)),
              **dict.fromkeys(below, Fraction(-len(above), size))}  # fmt: skip
    return u != [values.get(t, Fraction(0)) for t in range(len(u))]


def shorter_local_optimum(one: dict[str, Any]) -> bool:
    """Some other selection is locally optimal and has a shorter solution than the best tokens."""
    X, scores, best = one["X"], gamma(one), best_of(one)
    top = least(kept_rows(X, best))
    for alpha in product(range(len(X[0])), repeat=len(X)):
        p = least(kept_rows(X, alpha))
        if top is None or p is None or list(alpha) == best:
            continue
        local = all(
            scores[i][a] > scores[i][t]
            for i, a in enumerate(alpha)
            for t in range(len(X[i]))
            if t != a and dot(minus(X[i][a], X[i][t]), p) == 1
        )
        if local and dot(p, p) < dot(top, top):
            return True
    return False


def two_nuclear_solutions(one: dict[str, Any], first: Any, second: Any, lam: Vector) -> bool:
    """Both matrices meet every row and have the nuclear norm that the multipliers prove least."""
    rows = [
        [a * b for a in minus(x[0], t) for b in z]
        for x, z in zip(one["X"], one["z"], strict=True)
        for t in x[1:]
    ]
    M = [dot(lam, column) for column in zip(*rows, strict=True)]
    with mpmath.workdps(60):
        top = mpmath.svd_r(_matrix(M), compute_uv=False)[0]
        bound = mpmath.mpf(sum(lam).numerator) / sum(lam).denominator / top
        norms = [mpmath.fsum(mpmath.svd_r(_matrix(W), compute_uv=False)) for W in (first, second)]
        close = all(abs(norm - bound) < mpmath.mpf(10) ** -50 for norm in norms)
    meets = all(dot(row, W) >= 1 for row in rows for W in (first, second))
    return close and meets and first != second and min(lam) >= 0


def _matrix(W: Vector) -> Any:
    a, b, c, d = (mpmath.mpf(w.numerator) / w.denominator for w in W)
    return mpmath.matrix([[a, b], [c, d]])


def rank_one_is_too_little(one: dict[str, Any]) -> bool:
    """Two inputs: some W keeps the first tokens, and no u wᵀ does."""
    X, z = one["X"], one["z"]
    assert z[0][0] * z[1][1] != z[0][1] * z[1][0]
    whole = [[a * b for a in minus(x[0], t) for b in q]
             for x, q in zip(X, z, strict=True) for t in x[1:]]  # fmt: skip
    for sign in (1, -1):
        rows = [minus(X[0][0], t) for t in X[0][1:]]
        rows += [[sign * a for a in minus(X[1][0], t)] for t in X[1][1:]]
        if least(rows) is not None:
            return False
    return least(whole) is not None


def slope_along_solution(one: dict[str, Any]) -> Any:
    """⟨∇L(p0), W^mm⟩ of the logistic loss to 50 digits."""
    direction = least(kept_rows(one["X"], best_of(one)))
    assert direction is not None
    with mpmath.workdps(50):
        pull = _pull(one, [mpmath.mpf(x.numerator) / x.denominator for x in one["p0"]])
        return -mpmath.fsum(
            a * b.numerator / b.denominator for a, b in zip(pull, direction, strict=True)
        )


def _real(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def _pull(one: dict[str, Any], p: list[Any]) -> list[Any]:
    """−∇L at a prompt."""
    n, out = len(one["X"]), [mpmath.mpf(0)] * len(p)
    for x, scores in zip(one["X"], gamma(one), strict=True):
        powers = [mpmath.exp(mpmath.fsum(_real(a) * b for a, b in zip(t, p, strict=True)))
                  for t in x]  # fmt: skip
        s = [w / mpmath.fsum(powers) for w in powers]
        f = mpmath.fsum(a * _real(g) for a, g in zip(s, scores, strict=True))
        for t, weight, g in zip(x, s, scores, strict=True):
            share = weight * (_real(g) - f) / (1 + mpmath.exp(f)) / n
            out = [o + share * _real(a) for o, a in zip(out, t, strict=True)]
    return out


def correlation_falls(one: dict[str, Any], step: Fraction, count: int) -> bool:
    """Whether a step of normalized descent from 0 lowers the correlation, to 50 digits."""
    direction = least(kept_rows(one["X"], best_of(one)))
    assert direction is not None
    with mpmath.workdps(50):
        d = [mpmath.mpf(x.numerator) / x.denominator for x in direction]
        p, last = [mpmath.mpf(0)] * len(d), mpmath.mpf(-1)
        for _ in range(count):
            g = _pull(one, p)
            size = mpmath.sqrt(mpmath.fsum(a * a for a in g))
            p = [
                a + b / size * step.numerator / step.denominator for a, b in zip(p, g, strict=True)
            ]
            both = mpmath.fsum(a * b for a, b in zip(p, d, strict=True))
            now = both / mpmath.sqrt(mpmath.fsum(a * a for a in p) * mpmath.fsum(b * b for b in d))
            if now < last - mpmath.mpf(10) ** -30:
                return True
            last = now
    return False


def others_share_a_score(one: dict[str, Any]) -> bool:
    """B.2."""
    return all(len(set(sorted(row)[:-1])) == 1 and sorted(row)[-2] < max(row)
               for row in gamma(one))  # fmt: skip

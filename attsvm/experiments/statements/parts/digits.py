"""Attention, loss and gradient in sixty digits: what an exponential says is not a rational.

Every number here comes from fewer than ten thousand sums, products and exponentials, each wrong by
less than one unit of the sixtieth digit. A value beyond 1e-40 of its terms therefore has its sign.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from typing import NamedTuple

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.statement import Instance

DIGITS = 60
SURE = Decimal("1e-40")

Matrix = list[list[Decimal]]


class Look(NamedTuple):
    """At one W, of the logistic loss: attention (n, T), head's values (n,), loss, −∇L (d, dq)."""

    attention: Matrix
    values: list[Decimal]
    loss: Decimal
    pull: Matrix


def decimals(array: Floats) -> Matrix:
    """A float matrix, exactly."""
    return [[Decimal(float(x)) for x in row] for row in array]


def look_at(one: Instance, W: Matrix, digits: int = DIGITS) -> Look:
    """Attention, head's values, mean logistic loss and its negative gradient at W."""
    with localcontext(Context(prec=digits)):
        X = [decimals(tokens) for tokens in one["X"]]
        Z = decimals(one.tokens.queries)
        v = [Decimal(float(x)) for x in one["v"]]
        labels = one.arrays.get("y")
        y = [Decimal(1)] * len(X) if labels is None else [Decimal(float(a)) for a in labels]
        n = len(X)
        attention, values, loss = [], [], Decimal(0)
        pull = [[Decimal(0)] * len(Z[0]) for _ in W]
        for tokens, z, label in zip(X, Z, y, strict=True):
            query = [dot(row, z) for row in W]
            logits = [dot(x, query) for x in tokens]
            top = max(logits)
            powers = [(l - top).exp() for l in logits]
            total = sum(powers, Decimal(0))
            s = [p / total for p in powers]
            gamma = [label * dot(x, v) for x in tokens]
            f = dot(s, gamma)
            slope = 1 / (1 + f.exp())
            loss += (1 + (-f).exp()).ln() / n
            for weight, x, g in zip(s, tokens, gamma, strict=True):
                share = slope * weight * (g - f) / n
                for i, a in enumerate(x):
                    for j, b in enumerate(z):
                        pull[i][j] += share * a * b
            attention.append(s)
            values.append(f)
        return Look(attention, values, loss, pull)


def dot(a: list[Decimal], b: list[Decimal]) -> Decimal:
    """a·b."""
    return sum((x * y for x, y in zip(a, b, strict=True)), Decimal(0))


def inner(A: Matrix, B: Matrix) -> Decimal:
    """⟨A, B⟩ of two matrices."""
    return sum((dot(a, b) for a, b in zip(A, B, strict=True)), Decimal(0))

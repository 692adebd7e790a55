"""Derived: below its level the loss keeps every best token above half, and a step lowers it."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

from attsvm.experiments.statements.parts.descent import loss_and_pull, smoothness
from attsvm.experiments.statements.parts.digits import DIGITS, SURE, Matrix, decimals, look_at
from attsvm.experiments.statements.parts.facts import best_tokens, point
from attsvm.experiments.statements.parts.rationals import exact_scores
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement
from attsvm.experiments.studies.shared.plain_descent import below_level


def premises(one: Instance) -> bool:
    """n(L − L⋆) < min_i [ℓ((γ_opt + γ₂)/2) − ℓ(γ_opt)], the best tokens unique."""
    if best_tokens(one) is None:
        return False
    below = below_level(one.tokens, one["v"], point(one, "p0"))
    return below.excess < below.allowed


def violation(one: Instance) -> float:
    """½ less the least attention on a best token, or the rise of L in a step of 1/L_W."""
    W = point(one, "p0")
    below = below_level(one.tokens, one["v"], W)
    loss, pull = loss_and_pull(one.tokens, one["v"], W)
    size = smoothness(one.tokens, one["v"])
    rise = 0.0
    if size > 0:
        rise = loss_and_pull(one.tokens, one["v"], W + pull / size)[0] - loss
    return max(0.5 - below.least, rise - 1e-12)


def _loss(f: Decimal) -> Decimal:
    return (1 + (-f).exp()).ln()


def confirm(one: Instance) -> Confirmation:
    """Premise and conclusion in sixty digits, attention only: a rise needs a step as well."""
    gamma = exact_scores(one)
    with localcontext(Context(prec=DIGITS)):
        first, second = (
            [Decimal(s.numerator) / Decimal(s.denominator) for s in column]
            for column in zip(*(sorted(row)[:-3:-1] for row in gamma), strict=True)
        )
        here = decimals(point(one, "p0"))
        seen = look_at(one, here)
        top = [row.index(max(row)) for row in gamma]
        least = min(s[t] for s, t in zip(seen.attention, top, strict=True))
        excess = sum(
            (_loss(f) - _loss(g) for f, g in zip(seen.values, first, strict=True)), Decimal(0)
        )
        allowed = min(_loss((a + b) / 2) - _loss(a) for a, b in zip(first, second, strict=True))
        step = 1 / Decimal(smoothness(one.tokens, one["v"]))
        there: Matrix = [
            [a + step * b for a, b in zip(*rows, strict=True)]
            for rows in zip(here, seen.pull, strict=True)
        ]
        rise = look_at(one, there).loss - seen.loss
        broken = allowed - excess > SURE and (Decimal("0.5") - least > SURE or rise > SURE)
        return Confirmation(
            broken,
            "sixty digits",
            f"n(L − L⋆) = {float(excess):.6g} of {float(allowed):.6g} allowed, least attention on a"
            f" best token {float(least):.6g}, a step changes L by {float(rise):.3g}",
        )


STATEMENT = Statement(
    "loss-level",
    title="Below its level the loss holds the best tokens",
    says="If n(L(W) − L⋆) < min_i [ℓ((γ_opt + γ₂)/2) − ℓ(γ_opt)], every best token has more than "
    "half of its attention, and a step of 1/L_W does not raise the loss (derived; "
    "docs/convergence.md).",
    kind="theorem",
    space=Space(
        {"n": (1, 3), "T": (2, 3), "d": (1, 3)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",)), Field("p0", ("d",), scale=2.0)),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    claims=("B.loss-level",),
    proves="sixty digits",
)

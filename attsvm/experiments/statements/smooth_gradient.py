"""B, Lemma 4: the gradient of the loss is Lipschitz with the printed constant."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

import numpy as np

from attsvm.experiments.statements.parts.descent import loss_and_pull, smoothness
from attsvm.experiments.statements.parts.digits import DIGITS, decimals, inner, look_at
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """Two different points, and a constant above 0."""
    return bool((one["p0"] != one["p1"]).any()) and smoothness(one.tokens, one["v"]) > 0


def violation(one: Instance) -> float:
    """‖∇L(W) − ∇L(W')‖/(L_W ‖W − W'‖) − 1."""
    tokens, v = one.tokens, one["v"]
    ends = [loss_and_pull(tokens, v, one[name][:, None])[1] for name in ("p0", "p1")]
    apart = np.linalg.norm(one["p0"] - one["p1"])
    return float(np.linalg.norm(ends[0] - ends[1]) / (smoothness(tokens, v) * apart)) - 1


def confirm(one: Instance) -> Confirmation:
    """The quotient in sixty digits; the constant, a norm of floats, is taken as computed."""
    with localcontext(Context(prec=DIGITS)):
        looks = [look_at(one, decimals(one[name][:, None])).pull for name in ("p0", "p1")]
        gap = [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(*looks, strict=True)]
        way = decimals((one["p0"] - one["p1"])[:, None])
        ratio = (inner(gap, gap) / inner(way, way)).sqrt()
        size = Decimal(smoothness(one.tokens, one["v"]))
        return Confirmation(
            ratio > size * (1 + Decimal("1e-9")),
            "sixty digits",
            f"the gradient changes by {float(ratio):.6g} a unit, L_W is {float(size):.6g}",
        )


STATEMENT = Statement(
    "smooth-gradient",
    title="The gradient is Lipschitz with L_W",
    says="‖∇L(W) − ∇L(W')‖ ≤ L_W ‖W − W'‖, L_W = (1/n) Σ ‖v‖‖z‖²‖X‖³(‖v‖‖X‖/4 + 3) for the "
    "logistic loss (v1, Lemma 4).",
    kind="theorem",
    space=Space(
        {"n": (1, 2), "T": (2, 3), "d": (1, 3)},
        (
            Field("X", ("n", "T", "d")),
            Field("v", ("d",)),
            Field("p0", ("d",)),
            Field("p1", ("d",)),
        ),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    proves="sixty digits",
)

"""B, Lemma 2: the loss is above its infimum at every W."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

from attsvm.experiments.statements.parts.descent import loss_and_pull
from attsvm.experiments.statements.parts.digits import DIGITS, SURE, decimals, look_at
from attsvm.experiments.statements.parts.facts import point, scores
from attsvm.experiments.statements.parts.rationals import exact_scores
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """Some input has two scores."""
    found = scores(one)
    return bool((found.max(axis=1) > found.min(axis=1)).any())


def violation(one: Instance) -> float:
    """L⋆ − L(W), less what rounding may do."""
    return -loss_and_pull(one.tokens, one["v"], point(one, "p0"))[0] - 1e-12


def confirm(one: Instance) -> Confirmation:
    """L(W) − L⋆ in sixty digits."""
    with localcontext(Context(prec=DIGITS)):
        top = [max(row) for row in exact_scores(one)]
        least = sum(
            ((1 + (-Decimal(s.numerator) / s.denominator).exp()).ln() for s in top), Decimal(0)
        ) / len(top)
        above = look_at(one, decimals(point(one, "p0"))).loss - least
        return Confirmation(-above > SURE, "sixty digits", f"L − L⋆ = {float(above):.6g}")


STATEMENT = Statement(
    "loss-infimum",
    title="The loss is above its infimum",
    says="L(W) > L⋆ = (1/n) Σ ℓ(γ_opt) at every W, unless every input has one score (v1, Lemma 2).",
    kind="theorem",
    space=Space(
        {"n": (1, 3), "T": (2, 3), "d": (1, 3)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",)), Field("p0", ("d",), scale=2.0)),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    proves="sixty digits",
)

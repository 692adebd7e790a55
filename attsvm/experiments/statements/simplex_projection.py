"""B, Lemma 6: how many tokens the best attention keeps under a quadratic penalty."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.parts.rationals import fractions, written
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def _make(drawn: dict[str, Floats]) -> dict[str, Floats]:
    """One input of orthonormal tokens: scores are the entries of v, each a gap below the last."""
    v = -np.concatenate([[0.0], np.cumsum(abs(drawn["gaps"]))])
    return {"X": np.eye(len(v))[None], "v": v, "penalty": abs(drawn["penalty"])}


def best_attention(scores: list[Fraction], penalty: Fraction) -> list[Fraction]:
    """The point of the simplex next to γ/(2λ), for scores sorted downwards, λ > 0."""
    total, level = Fraction(0), Fraction(0)
    for k, score in enumerate(scores, start=1):
        total += score
        if score > (total - 2 * penalty) / k:
            level = (total - 2 * penalty) / k
    return [max(score - level, Fraction(0)) / (2 * penalty) for score in scores]


def _allowed(scores: list[Fraction], penalty: Fraction) -> list[int]:
    """Every τ with τ gap_τ/2 > λ > gap_1, gap_τ = γ_τ − γ_{τ+1}."""
    gaps = [a - b for a, b in pairwise(scores)]
    if not penalty > gaps[0]:
        return []
    return [t for t, gap in enumerate(gaps, start=1) if t * gap / 2 > penalty]


def _sorted(one: Instance) -> tuple[list[Fraction], Fraction]:
    return sorted(fractions(one["v"]), reverse=True), fractions(one["penalty"])[0]


def premises(one: Instance) -> bool:
    """λ > 0, distinct scores, and some τ that the lemma takes."""
    scores, penalty = _sorted(one)
    return penalty > 0 and len(set(scores)) == len(scores) and bool(_allowed(scores, penalty))


def violation(one: Instance) -> float:
    """By how many tokens the best attention leaves 2 to τ, at worst over τ."""
    scores, penalty = _sorted(one)
    kept = sum(s > 0 for s in best_attention(scores, penalty))
    return float(max(max(2 - kept, kept - t) for t in _allowed(scores, penalty)))


def confirm(one: Instance) -> Confirmation:
    """The same in rationals, with the optimality conditions of the projection checked."""
    scores, penalty = _sorted(one)
    s = best_attention(scores, penalty)
    slopes = [g - 2 * penalty * a for g, a in zip(scores, s, strict=True)]
    optimal = sum(s) == 1 and all(
        slope == max(slopes) for slope, a in zip(slopes, s, strict=True) if a > 0
    )
    return Confirmation(
        optimal and violation(one) > 0,
        "rationals",
        f"the best attention is {written(s)} for the scores {written(scores)} and λ = {penalty}",
    )


STATEMENT = Statement(
    "simplex-projection",
    title="A quadratic head keeps 2 to τ tokens",
    says="One input of orthonormal tokens, head v·o − λ‖o‖²: if τ gap_τ/2 > λ > gap_1, the best "
    "attention has between 2 and τ nonzeros (v1, Lemma 6).",
    kind="theorem",
    space=Space({"gaps": (1, 5)}, (Field("gaps", ("gaps",)), Field("penalty", (1,))), make=_make),
    premises=premises,
    violation=violation,
    confirm=confirm,
    claims=("B.simplex-projection",),
    lines=(
        "from attsvm.experiments.statements.simplex_projection import STATEMENT, Instance",
        "print(STATEMENT.checked(Instance({'X': X, 'v': v, 'penalty': penalty})).says)",
    ),
    proves="the projection in rationals",
)

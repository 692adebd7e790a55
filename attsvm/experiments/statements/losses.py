"""Statements of paper B's first version about the loss of a prompt, and about one attention."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements import facts
from attsvm.experiments.statements.facts import SURE, Exact, written
from attsvm.experiments.statements.statement import (
    P0,
    Confirmation,
    Field,
    Instance,
    NoProof,
    Space,
    Statement,
    V,
    X,
)
from attsvm.experiments.studies.shared.plain_descent import below_level, loss_and_pull, smoothness


def _prompt(one: Instance, name: str = "p0") -> Floats:
    """A prompt (d,) as a matrix (d, 1)."""
    return one[name][:, None]


# ---------------------------------------------------------------- infimum and level


def _two_scores(one: Instance) -> bool:
    """Some input has two scores."""
    found = one.scores
    return bool((found.max(axis=1) > found.min(axis=1)).any())


def _below_infimum(one: Instance) -> float:
    """L⋆ − L(W), less what rounding may do."""
    return -loss_and_pull(one.tokens, one["v"], _prompt(one))[0] - 1e-12


def _confirm_below_infimum(one: Instance) -> Confirmation:
    """L(W) − L⋆ in sixty digits."""
    with facts.precision():
        top = facts.decimals(facts.exact_scores(one).max(axis=1))
        above = facts.look_at(one, facts.decimals(_prompt(one))).loss - facts.logistic(
            top
        ).sum() / len(top)
    return Confirmation(-above > SURE, f"L − L⋆ = {float(above):.6g}")


def _is_below_level(one: Instance) -> bool:
    """n(L − L⋆) < min_i [ℓ((γ_opt + γ₂)/2) − ℓ(γ_opt)], the best tokens unique."""
    if not facts.has_unique_best(one):
        return False
    below = below_level(one.tokens, one["v"], _prompt(one))
    return below.excess < below.allowed


def _leaves_level(one: Instance) -> float:
    """½ less the least attention on a best token, or the rise of L in a step of 1/L_W."""
    W = _prompt(one)
    below = below_level(one.tokens, one["v"], W)
    loss, pull = loss_and_pull(one.tokens, one["v"], W)
    size = smoothness(one.tokens, one["v"])
    rise = loss_and_pull(one.tokens, one["v"], W + pull / size)[0] - loss if size > 0 else 0.0
    return max(0.5 - below.least, rise - 1e-12)


def _confirm_leaves_level(one: Instance) -> Confirmation:
    """Premise and conclusion in sixty digits, attention only: a rise needs a step as well."""
    gamma = facts.exact_scores(one)
    with facts.precision():
        first, second = facts.decimals(np.sort(gamma, axis=1)[:, :-3:-1]).T
        here = facts.decimals(_prompt(one))
        seen = facts.look_at(one, here)
        least = min(s[g.argmax()] for s, g in zip(seen.attention, gamma, strict=True))
        excess = (facts.logistic(seen.values) - facts.logistic(first)).sum()
        allowed = min(facts.logistic((first + second) / 2) - facts.logistic(first))
        step = 1 / Decimal(smoothness(one.tokens, one["v"]))
        rise = facts.look_at(one, here + step * seen.pull).loss - seen.loss
        broken = allowed - excess > SURE and (Decimal("0.5") - least > SURE or rise > SURE)
    return Confirmation(
        broken,
        f"n(L − L⋆) = {float(excess):.6g} of {float(allowed):.6g} allowed, least attention on a"
        f" best token {float(least):.6g}, a step changes L by {float(rise):.3g}",
    )


# ---------------------------------------------------------------- the gradient


def _two_points(one: Instance) -> bool:
    """Two different points, and a constant above 0."""
    return bool((one["p0"] != one["p1"]).any()) and smoothness(one.tokens, one["v"]) > 0


def _beyond_constant(one: Instance) -> float:
    """‖∇L(W) − ∇L(W')‖/(L_W ‖W − W'‖) − 1."""
    tokens, v = one.tokens, one["v"]
    ends = [loss_and_pull(tokens, v, _prompt(one, name))[1] for name in ("p0", "p1")]
    apart = np.linalg.norm(one["p0"] - one["p1"])
    return float(np.linalg.norm(ends[0] - ends[1]) / (smoothness(tokens, v) * apart)) - 1


def _confirm_beyond_constant(one: Instance) -> Confirmation:
    """The quotient in sixty digits; the constant, a norm of floats, is taken as computed."""
    size = Decimal(smoothness(one.tokens, one["v"]))
    with facts.precision():
        points = [facts.decimals(_prompt(one, name)) for name in ("p0", "p1")]
        gap = facts.look_at(one, points[0]).pull - facts.look_at(one, points[1]).pull
        ratio = ((gap**2).sum() / ((points[0] - points[1]) ** 2).sum()).sqrt()
    return Confirmation(
        ratio > size * (1 + Decimal("1e-9")),
        f"the gradient changes by {float(ratio):.6g} a unit, L_W is {float(size):.6g}",
    )


def _rise_along(one: Instance) -> float:
    """⟨∇L, W^mm⟩ at the point, as a share of ‖∇L‖‖W^mm‖: positive where the loss rises."""
    _, pull = loss_and_pull(one.tokens, one["v"], _prompt(one))
    return -facts.cosine(pull, facts.facts_of(one, one.best).W)


def _confirm_rise(one: Instance) -> Confirmation:
    """The sign of ⟨∇L, W^mm⟩ in sixty digits, W^mm in rationals."""
    W = facts.exact_solution(one, one.best).matrix.fractions()
    with facts.precision():
        D = facts.decimals(W)
        slope = -(facts.look_at(one, facts.decimals(_prompt(one))).pull * D).sum()
    return Confirmation(
        slope > SURE * abs(D).max(),
        f"at p = {written(one['p0'])} the slope of the loss along W^mm = {written(W.ravel())} is "
        f"{float(slope):.6g}",
    )


def _confirm_rise_in_theorem(one: Instance) -> Confirmation:
    """B.1 in rationals where B.2 does not hold, and the sign of the slope in sixty digits."""
    if not facts.equal_others(one) and not facts.exact_solution(one, one.best).tight.all():
        raise NoProof("B.1 does not hold exactly")
    return _confirm_rise(one)


# ---------------------------------------------------------------- a quadratic head


def _one_input(drawn: dict[str, Floats]) -> dict[str, Floats]:
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


def _sorted(one: Instance) -> tuple[list[Fraction], Fraction]:
    return sorted(facts.fractions(one["v"]), reverse=True), facts.fractions(one["penalty"])[0]


def _allowed(one: Instance) -> list[int]:
    """Every τ with τ gap_τ/2 > λ > gap_1, gap_τ = γ_τ − γ_{τ+1}."""
    found, penalty = _sorted(one)
    gaps = [a - b for a, b in pairwise(found)]
    if not penalty > gaps[0]:
        return []
    return [t for t, gap in enumerate(gaps, start=1) if t * gap / 2 > penalty]


def _lemma_6(one: Instance) -> bool:
    """λ > 0, distinct scores, and some τ that the lemma takes."""
    found, penalty = _sorted(one)
    return penalty > 0 and len(set(found)) == len(found) and bool(_allowed(one))


def _too_many_kept(one: Instance) -> float:
    """By how many tokens the best attention leaves 2 to τ, at worst over τ."""
    kept = sum(s > 0 for s in best_attention(*_sorted(one)))
    return float(max(max(2 - kept, kept - t) for t in _allowed(one)))


def _confirm_kept(one: Instance) -> Confirmation:
    """The same in rationals, with the optimality conditions of the projection checked."""
    found, penalty = _sorted(one)
    s: Exact = np.array(best_attention(found, penalty))
    slopes = np.array(found) - 2 * penalty * s
    optimal = s.sum() == 1 and (slopes[s > 0] == max(slopes)).all()
    return Confirmation(
        bool(optimal) and _too_many_kept(one) > 0,
        f"the best attention is {written(s)} for the scores {written(found)} and λ = {penalty}",
    )


_WITH_POINT = (X, V, P0)

STATEMENTS = (
    Statement(
        "loss-infimum",
        says="L(W) > L⋆ = (1/n) Σ ℓ(γ_opt) at every W, unless every input has one score (v1, "
        "Lemma 2).",
        kind="theorem",
        space=Space({"n": (1, 3), "T": (2, 3), "d": (1, 3)}, _WITH_POINT),
        premises=_two_scores,
        violation=_below_infimum,
        confirm=_confirm_below_infimum,
        proves="sixty digits",
    ),
    Statement(
        "smooth-gradient",
        says="‖∇L(W) − ∇L(W')‖ ≤ L_W ‖W − W'‖, L_W = (1/n) Σ ‖v‖‖z‖²‖X‖³(‖v‖‖X‖/4 + 3) for the "
        "logistic loss (v1, Lemma 4).",
        kind="theorem",
        space=Space(
            {"n": (1, 2), "T": (2, 3), "d": (1, 3)},
            (X, V, Field("p0", ("d",)), Field("p1", ("d",))),
        ),
        premises=_two_points,
        violation=_beyond_constant,
        confirm=_confirm_beyond_constant,
        proves="sixty digits",
    ),
    Statement(
        "no-stationary-point",
        says="If every token but the best is tight (B.1) or the others of an input share one score "
        "(B.2), then −⟨∇L(W), W^mm⟩ > 0 at every W: there is no stationary point (v1, Theorem 3).",
        kind="theorem",
        space=Space({"n": (1, 3), "T": (2, 3), "d": (1, 3)}, _WITH_POINT),
        premises=facts.theorem_3,
        violation=_rise_along,
        confirm=_confirm_rise_in_theorem,
        claims=("B.no-stationary-points",),
        proves="premises in rationals, the slope in sixty digits",
    ),
    Statement(
        "loss-level",
        says="If n(L(W) − L⋆) < min_i [ℓ((γ_opt + γ₂)/2) − ℓ(γ_opt)], every best token has more "
        "than half of its attention, and a step of 1/L_W does not raise the loss (derived; "
        "docs/convergence.md).",
        kind="theorem",
        space=Space({"n": (1, 3), "T": (2, 3), "d": (1, 3)}, _WITH_POINT),
        premises=_is_below_level,
        violation=_leaves_level,
        confirm=_confirm_leaves_level,
        claims=("B.loss-level",),
        proves="sixty digits",
    ),
    Statement(
        "simplex-projection",
        says="One input of orthonormal tokens, head v·o − λ‖o‖²: if τ gap_τ/2 > λ > gap_1, the "
        "best attention has between 2 and τ nonzeros (v1, Lemma 6).",
        kind="theorem",
        space=Space(
            {"gaps": (1, 5)}, (Field("gaps", ("gaps",)), Field("penalty", (1,))), make=_one_input
        ),
        premises=_lemma_6,
        violation=_too_many_kept,
        confirm=_confirm_kept,
        claims=("B.simplex-projection",),
        proves="the projection in rationals",
    ),
    Statement(
        "falls-along-solution",
        says="−⟨∇L(W), W^mm⟩ > 0 at every W whenever the best tokens are unique and separable "
        "(Theorem 3 of v1 with neither B.1 nor B.2).",
        kind="false",
        space=Space({"n": (1, 2), "T": (2, 3), "d": (1, 2)}, _WITH_POINT),
        premises=facts.keeps_best,
        violation=_rise_along,
        confirm=_confirm_rise,
        proves="W^mm in rationals, the slope in sixty digits",
    ),
)

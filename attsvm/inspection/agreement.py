"""What predicts a head's choices: one-line rules, matrices fitted to some choices, and its kind.

A rule picks a key by its place alone. One that picks the same key for every query names a sink: the
first special token ([CLS]), the last ([SEP]), the first or the last ordinary one (often a full
stop). One that starts from the query names a place: its own, or one at a fixed distance. Fits see
the choices of one half of a Split and are asked for those of the other; they are read beside the
best rule, which looks at places only, and beside the mean query, which looks at keys only.

    content      the SVM of its choices agrees with half of the held-out choices, and with a tenth
                 more of them than the best one-line rule, special keys kept and removed
    sink         that rule names a sink, and holds for half of the held-out choices
    positional   it names a place, and holds for half of them; or for half of them once special
                 keys are removed, where no rule does before
    diffuse      none of these, or the two top logits are equal for half of the queries

They are tried in this order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Ints
from attsvm.errors import BadTokens
from attsvm.inspection.fits import (
    SvmFit,
    agreement_of,
    apart,
    circular,
    cosine_of,
    cross_entropy,
    mean_difference,
    one_hot,
    quietly,
    svm_fit,
    tokens_of,
    twins,
)
from attsvm.inspection.margins import choosing, margins_of
from attsvm.inspection.norm_ratio import permute
from attsvm.inspection.view import View
from attsvm.problem.problem import Problem

# How far from the query an offset rule looks.
FARTHEST = 8

Place = Literal["sink", "positional"]


class Rule(NamedTuple):
    """A rule: its name, whether it names a sink or a place, and the key (n,) it picks, −1: none."""

    name: str
    place: Place
    pick: Callable[[View], Ints]


class FollowedRule(NamedTuple):
    """The rule that most of the fitted queries follow, and the share of held-out ones that do."""

    name: str
    place: Place
    agreement: float


def _first(marked: Bools) -> Ints:
    return np.where(marked.any(axis=1), marked.argmax(axis=1), -1)


def _last(marked: Bools) -> Ints:
    T = marked.shape[1]
    return np.where(marked.any(axis=1), T - 1 - marked[:, ::-1].argmax(axis=1), -1)


def offset_keys(view: View, k: int) -> Ints:
    """The key (n,) at k places from the query, −1 where it is not valid."""
    T = view.valid.shape[1]
    at = view.positions + k
    inside = (at >= 0) & (at < T)
    at = np.where(inside, at, 0)
    return np.where(inside & view.valid[np.arange(len(at)), at], at, -1)


def _offset(k: int) -> Rule:
    name = "itself" if k == 0 else f"{abs(k)} {'after' if k > 0 else 'before'}"
    return Rule(name, "positional", lambda view: offset_keys(view, k))


RULES: tuple[Rule, ...] = (
    Rule("first special", "sink", lambda view: _first(view.valid & view.special)),
    Rule("last special", "sink", lambda view: _last(view.valid & view.special)),
    Rule("first ordinary", "sink", lambda view: _first(view.valid & ~view.special)),
    Rule("last ordinary", "sink", lambda view: _last(view.valid & ~view.special)),
    *(_offset(k) for k in sorted(range(-FARTHEST, FARTHEST + 1), key=abs)),
)


def rule_for(fit: tuple[View, Ints], test: tuple[View, Ints]) -> FollowedRule:
    """The rule that these keys follow most, each with its View, and its agreement on others."""
    followed = [float((rule.pick(fit[0]) == fit[1]).mean()) for rule in RULES]
    best = RULES[int(np.argmax(followed))]
    agreement = float((best.pick(test[0]) == test[1]).mean())
    return FollowedRule(best.name, best.place, agreement)


Kind = Literal["sink", "positional", "content", "diffuse"]

# Queries that fits and kinds need: one third is fitted, the rest held out.
NEEDED = 30
# agreement: the share of held-out queries that a rule, or the SVM, must agree with; lift: how much
# more often than the best rule the SVM must agree.
THRESHOLDS = {"agreement": 0.5, "lift": 0.1}


def kind_of(found: HeldOutAgreement, without: HeldOutAgreement | None = None) -> Kind:
    """The kind of a head, from its held-out agreement; without: with special keys removed."""
    if found.tied >= THRESHOLDS["agreement"]:  # the first of equals is no choice of the head
        return "diffuse"
    rest = found if without is None else without
    if _by_tokens(found) and _by_tokens(rest):
        return "content"
    if _by_rule(found):
        return found.rule_place
    return "positional" if _by_rule(rest) and rest.rule_place == "positional" else "diffuse"


def _by_tokens(found: HeldOutAgreement) -> bool:
    return found.svm_agreement >= THRESHOLDS["agreement"] and found.lift >= THRESHOLDS["lift"]


def _by_rule(found: HeldOutAgreement) -> bool:
    return found.rule_agreement >= THRESHOLDS["agreement"]


# A query is saturated when one key has more than this much of its attention.
SATURATED = 0.9


def sharpness_of(view: View) -> dict[str, float]:
    """How sharp a head's attention is over the View's queries, by the fields of its record."""
    attention = view.attention()
    most = attention.max(axis=1)
    return {
        "sharpness": float(most.mean()),
        "saturated": float((most > SATURATED).mean()),
        "special_attention": float(np.where(view.special, attention, 0.0).sum(axis=1).mean()),
        "chance": float((1.0 / view.valid.sum(axis=1)).mean()),
    }


@dataclass(frozen=True, eq=False)
class HeldOutAgreement:
    """The share of held-out queries on which each agrees with the head's choice.

    rule: the best one-line rule, whose place is rule_place; mean_query: the head itself with every
    query replaced by the mean of the fitted ones; svm, mean_difference, cross_entropy,
    soft_cross_entropy: matrices fitted to the choices, the last one to the attention itself, which
    is a ceiling. separable: some W met the fitted choices. ease: the best margin of the choices
    over that of permuted ones. cosine: between W and the fitted SVM. learned: the queries that the
    SVM was fitted to, and the SVM. tied: the share of held-out queries whose two top logits cannot
    be separated, though their keys can, so that theirs is no choice.
    """

    rule: str
    rule_place: Place
    rule_agreement: float
    mean_query_agreement: float = np.nan
    svm_agreement: float = np.nan
    mean_difference_agreement: float = np.nan
    cross_entropy_agreement: float = np.nan
    soft_cross_entropy_agreement: float = np.nan
    separable: bool | None = None
    cosine: float = np.nan
    ease: float = np.nan
    learned: tuple[View, SvmFit] | None = None
    tied: float = 0.0

    @property
    def lift(self) -> float:
        """How much more often the SVM agrees than the best rule."""
        return self.svm_agreement - self.rule_agreement

    @property
    def kind(self) -> Kind:
        """The kind of the head, by these queries."""
        return kind_of(self)


def split(view: View, *, fit: int, test: int, seed: int) -> tuple[View, View]:
    """`fit` random queries to fit on and `test` others; where there are fewer, one third is fitted.

    Queries with a single key choose nothing and are left out. Raises BadTokens where fewer than
    NEEDED are left.
    """
    view = choosing(view)
    n = len(view.queries)
    if n < NEEDED:
        raise BadTokens(f"{n} queries have a choice; a fit needs at least {NEEDED} queries")
    order = np.random.default_rng(seed).permutation(n)
    cut = min(fit, max(1, n // 3)) if n < fit + test else fit
    return view.subset(order[:cut]), view.subset(order[cut : cut + test])


def held_out(
    fit: View, test: View, *, seed: int, cross: bool = True, eased: bool = True
) -> HeldOutAgreement:
    """The agreement of every fit. cross, eased: whether cross-entropies and ease are computed."""
    target = test.chosen()
    rule = rule_for((fit, fit.chosen()), (test, target))
    mean = np.broadcast_to(fit.queries.mean(axis=0), test.queries.shape)
    other = np.where(twins(test, target), np.inf, margins_of(test).least)
    found = {
        "mean_query_agreement": float((replace(test, queries=mean).chosen() == target).mean()),
        "tied": float((~(other.min(axis=1) > 0)).mean()),
    }
    rows = apart(fit, fit.chosen())
    if not len(rows):
        return HeldOutAgreement(*rule, **found)
    fitted = fit.subset(rows)
    chosen = fitted.chosen()
    svm = svm_fit(fitted, chosen)
    hot, soft = one_hot(fitted, chosen), fitted.attention()
    fits = {"svm": svm.W, "mean_difference": mean_difference(fitted, hot)}
    if cross:
        fits["cross_entropy"] = cross_entropy(fitted, hot)
        fits["soft_cross_entropy"] = cross_entropy(fitted, soft)
    found |= {f"{name}_agreement": agreement_of(test, W, target) for name, W in fits.items()}
    found["ease"] = ease_of(fitted, svm, seed=seed) if eased else np.nan
    found["cosine"] = cosine_of(svm.W, test.W)
    return HeldOutAgreement(*rule, separable=not svm.soft, learned=(fitted, svm), **found)


def ease_of(view: View, svm: SvmFit, *, seed: int) -> float:
    """The best margin of the choices over that of permuted ones: least norms, the other way round.

    At least this: the lower bound of one over the upper bound of the other. inf where it is proved
    that no matrix makes the permuted choices, nan for a soft fit.
    """
    if svm.soft:
        return np.nan
    labels = permute(view, view.chosen(), np.random.default_rng([seed, 1]))
    rows = apart(view, labels)
    if not len(rows):
        return np.nan
    part, labels = view.subset(rows), labels[rows]
    if circular(part, labels):
        return np.inf
    other = quietly(Problem.of(tokens_of(part, labels), labels), "frobenius")
    return float(other.lower / svm.certificate.upper)

"""Held-out agreement: whether matrices fitted to some choices of a head foretell others.

The fits see the choices of one half of a Split and are asked for those of the other. They are read
beside the best one-line rule, which looks at places only, and beside the mean query, which looks at
keys only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attsvm.errors import BadTokens
from attsvm.inspection.margins import choosing, margins_of
from attsvm.inspection.measure.fits import (
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
from attsvm.inspection.measure.nulls import permute
from attsvm.inspection.measure.rules import FollowedRule, best_rule
from attsvm.inspection.view import View
from attsvm.problem.problem import Problem


class Split(NamedTuple):
    """The queries to fit on, and those held out."""

    fit: View
    test: View


class HeldOutAgreement(NamedTuple):
    """The share of held-out queries on which each agrees with the head's choice.

    rule: the best one-line rule; mean_query: the head itself with every query replaced by the mean
    of the fitted ones; svm, mean_difference, cross_entropy, soft_cross_entropy: matrices fitted to
    the choices (nan where the head has no single W); the last one is fitted to the attention
    itself, and is a ceiling. soft: no W met the fitted choices. ease: the best margin of the
    choices over that of permuted ones. cosine: between W and the fitted SVM. learned: the queries
    that the SVM was fitted to, and the SVM. tied: the share of held-out queries whose two top
    logits cannot be separated, though their keys can, so that theirs is no choice.
    """

    rule: FollowedRule
    mean_query: float
    fitted: int
    tested: int
    svm: float = np.nan
    mean_difference: float = np.nan
    cross_entropy: float = np.nan
    soft_cross_entropy: float = np.nan
    soft: bool = False
    ease: float = np.nan
    cosine: float = np.nan
    learned: tuple[View, SvmFit] | None = None
    tied: float = 0.0

    @property
    def lift(self) -> float:
        """How much more often the SVM agrees than the best rule."""
        return self.svm - self.rule.agreement


def split(view: View, *, fit: int, test: int, seed: int) -> Split:
    """`fit` random queries to fit on and `test` others; where there are fewer, one third is fitted.

    Queries with a single key choose nothing and are left out. Raises BadTokens where fewer than
    three are left.
    """
    view = choosing(view)
    n = len(view.queries)
    if n < 3:
        raise BadTokens(f"{n} queries have a choice; at least 3 are needed to hold some out")
    order = np.random.default_rng(seed).permutation(n)
    cut = min(fit, max(1, n // 3)) if n < fit + test else fit
    return Split(view.subset(order[:cut]), view.subset(order[cut : cut + test]))


def held_out(
    parts: Split, *, seed: int, cross: bool = True, eased: bool = True
) -> HeldOutAgreement:
    """The agreement of every fit. cross, eased: whether cross-entropies and ease are computed."""
    fit, test = parts
    rule = best_rule(fit, test)
    target = test.chosen()
    mean = np.broadcast_to(fit.queries.mean(axis=0), test.queries.shape)
    mean_query = float((replace(test, queries=mean).chosen() == target).mean())
    other = np.where(twins(test, target), np.inf, margins_of(test).least)
    tied = float((~(other.min(axis=1) > 0)).mean())
    nothing = HeldOutAgreement(rule, mean_query, len(fit.queries), len(test.queries), tied=tied)
    rows = apart(fit, fit.chosen())
    if fit.turns is not None or not len(rows):
        return nothing
    fitted = fit.subset(rows)
    chosen = fitted.chosen()
    hot, soft = one_hot(fitted, chosen), fitted.attention()
    svm = svm_fit(fitted, chosen)
    found = nothing._replace(
        svm=agreement_of(test, svm.W, target),
        mean_difference=agreement_of(test, mean_difference(fitted, hot), target),
        soft=svm.soft,
        cosine=cosine_of(svm.W, test.W),
        learned=(fitted, svm),
    )
    if cross:
        found = found._replace(
            cross_entropy=agreement_of(test, cross_entropy(fitted, hot), target),
            soft_cross_entropy=agreement_of(test, cross_entropy(fitted, soft), target),
        )
    return found._replace(ease=ease_of(fitted, svm, seed=seed)) if eased else found


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

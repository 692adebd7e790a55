"""One-line rules: a key picked by its place alone, and how often the head picks the same.

A head that follows one need not look at the tokens. A rule that picks the same key for every query
names a sink: the first special token ([CLS]), the last ([SEP]), the first or the last ordinary one
(often a full stop). A rule that starts from the query names a place: its own, or one at a fixed
distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Ints
from attsvm.inspection.view import View

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


def best_rule(fit: View, test: View) -> FollowedRule:
    """The rule that the choices of `fit` follow most, with its agreement on `test`."""
    return rule_for((fit, fit.chosen()), (test, test.chosen()))


def rule_for(fit: tuple[View, Ints], test: tuple[View, Ints]) -> FollowedRule:
    """The rule that these keys follow most, each with its View, and its agreement on others."""
    followed = [float((rule.pick(fit[0]) == fit[1]).mean()) for rule in RULES]
    best = RULES[int(np.argmax(followed))]
    agreement = float((best.pick(test[0]) == test[1]).mean())
    return FollowedRule(best.name, best.place, agreement)

"""The kind of a head: sink, positional, content or diffuse, by the thresholds in this file.

    content      the SVM of its choices agrees with half of the held-out choices, and with a tenth
                 more of them than the best one-line rule, special keys kept and removed
    sink         that rule names a sink, and holds for half of the held-out choices
    positional   it names a place, and holds for half of them; or for half of them once special
                 keys are removed, where no rule does before
    diffuse      none of these, or the two top logits are equal for half of the queries

They are tried in this order.
"""

from __future__ import annotations

from typing import Literal

from attsvm.inspection.measure.agreement import HeldOutAgreement

Kind = Literal["sink", "positional", "content", "diffuse"]

# agreement: the share of held-out queries that a rule, or the SVM, must agree with; lift: how much
# more often than the best rule the SVM must agree.
THRESHOLDS = {"agreement": 0.5, "lift": 0.1}


def kind_of(found: HeldOutAgreement, without: HeldOutAgreement | None = None) -> Kind:
    """The kind of a head, from its held-out agreement; without: with special keys removed.

    Where the head has no single W (rotary positions) there is no SVM: only rules are tried, and
    what none explains is diffuse.
    """
    if found.tied >= THRESHOLDS["agreement"]:  # the first of equals is no choice of the head
        return "diffuse"
    rest = found if without is None else without
    if _by_tokens(found) and _by_tokens(rest):
        return "content"
    if _by_rule(found):
        return found.rule.place
    return "positional" if _by_rule(rest) and rest.rule.place == "positional" else "diffuse"


def _by_tokens(found: HeldOutAgreement) -> bool:
    return found.svm >= THRESHOLDS["agreement"] and found.lift >= THRESHOLDS["lift"]


def _by_rule(found: HeldOutAgreement) -> bool:
    return found.rule.agreement >= THRESHOLDS["agreement"]

"""A word for a head: sink, positional, content or diffuse, by thresholds that stand here alone.

    sink         the best one-line rule names a sink, and holds for half of the held-out queries
    positional   it names a place, and holds for half of them
    content      the SVM of its choices agrees with half of the held-out choices, and with a tenth
                 more of them than the best rule
    diffuse      none of these

Content is tried first: a head whose choices are foretold clearly better by its tokens than by any
rule is a content head, whatever the rule.
"""

from __future__ import annotations

from typing import Literal

from attsvm.lens.measure.agreement import Agreement

Kind = Literal["sink", "positional", "content", "diffuse"]

# The share of held-out queries that a rule, or the SVM, must agree with.
AGREES = 0.5
# How much more often than the best rule the SVM must agree.
LIFT = 0.1


def kind_of(found: Agreement) -> Kind:
    """The kind of a head, from its held-out agreement.

    Without an SVM (rotary positions) only rules are tried, and what none explains is diffuse.
    """
    if found.svm >= AGREES and found.lift >= LIFT:
        return "content"
    if found.rule.agreement >= AGREES:
        return found.rule.place
    return "diffuse"

"""B, Theorem 4 for one input, where it stands."""

from __future__ import annotations

from attsvm.experiments.statements.equal_scores import FIELDS, LINES, premises
from attsvm.experiments.statements.parts.descent import confirm_stray, strays
from attsvm.experiments.statements.statement import Instance, Space, Statement


def violation(one: Instance) -> float:
    """Positive where descent is proved at its start to end at other tokens than the best."""
    return strays(one)


STATEMENT = Statement(
    "equal-scores-one-input",
    title="Equal scores, one input: every start ends at the best token",
    says="Theorem 4 of v1 for n = 1, where it stands: equal scores of the others, any start, plain "
    "descent with a step of at most 1/L_W tends to W^mm.",
    kind="theorem",
    space=Space({"n": (1, 1), "T": (2, 4), "d": (1, 3)}, FIELDS),
    premises=premises,
    violation=violation,
    confirm=confirm_stray,
    claims=("B.equal-scores-global",),
    lines=LINES,
    proves="a proof of convergence, in intervals, at the start itself",
)

"""Known to be false. B, Theorem 4: equal scores, any start, the direction of the best tokens."""

from __future__ import annotations

from attsvm.experiments.statements.parts.descent import confirm_stray, strays
from attsvm.experiments.statements.parts.facts import best_tokens, equal_others, facts_of
from attsvm.experiments.statements.statement import Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """B.2, and the best tokens can be kept."""
    best = best_tokens(one)
    return best is not None and equal_others(one) and facts_of(one, best) is not None


LINES = (
    "tokens = attsvm.Tokens(X, labels=y)",
    "proof = attsvm.proof_of_convergence(tokens, p0, head=v, optimizer='gd', lr=0.01)",
    "print(proof.selection, attsvm.Selection.best(tokens, v).indices, proof.message)",
)
FIELDS = (
    Field("X", ("n", "T", "d")),
    Field("v", ("d",)),
    Field("y", ("n",), values=(1.0, -1.0)),
    Field("p0", ("d",), scale=4.0),
)

STATEMENT = Statement(
    "equal-scores",
    title="Equal scores: every start ends at the best tokens",
    says="If the tokens of an input but its best share one score and the best tokens can be kept, "
    "plain descent with a step of at most 1/L_W tends to W^mm from any starting point (v1, "
    "Theorem 4).",
    kind="false",
    space=Space({"n": (1, 3), "T": (2, 2), "d": (1, 2)}, FIELDS),
    premises=premises,
    violation=strays,
    confirm=confirm_stray,
    claims=("B.equal-scores-global",),
    lines=LINES,
    proves="a proof of convergence, in intervals, at the start itself",
)

"""B's conjecture (v1, 5.2): with all margins tight and Assumption D every run ends at the best."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.experiments.statements.parts.descent import confirm_stray, start_proof
from attsvm.experiments.statements.parts.facts import all_tight, best_tokens, facts_of, selections
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement

# Steps of normalized descent, which follows the flow; a run that is not there yet goes on.
_STEPS = (400, 4000, 40000)


def premises(one: Instance) -> bool:
    """Unique best tokens, B.1, and D: every other selection has a tight best token."""
    best = best_tokens(one)
    if best is None or not all_tight(one):
        return False
    own = tuple(int(t) for t in best)
    for alpha in selections(one):
        facts = None if alpha == own else facts_of(one, alpha)
        if facts is None:
            continue  # nothing tends to a selection that cannot be kept
        wrong = [i for i, (a, b) in enumerate(zip(alpha, own, strict=True)) if a != b]
        if not any(facts.tight[i, own[i]] for i in wrong):
            return False
    return True


def _end(one: Instance, steps: int) -> Any:
    return train(
        one.tokens,
        model="prompt",
        head=one["v"],
        optimizer="ngd",
        lr=0.05,
        steps=steps,
        init={"p": one["p0"][None]},
    )


def violation(one: Instance) -> float:
    """½ less the least attention on a best token, at the end of a run that follows the flow."""
    best = best_tokens(one)
    least = 0.0
    for steps in _STEPS:
        path = _end(one, steps)
        p = path.weights["p"][-1, 0]
        h = one["X"] @ p
        s = np.exp(h - h.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        least = float(s[np.arange(len(s)), best].min())
        if least > 0.5:
            break
    return 0.5 - least


def confirm(one: Instance) -> Confirmation:
    """A proof, at the start or at the end of the run, that descent ends elsewhere."""
    if start_proof(one).proved:
        return confirm_stray(one)
    p = _end(one, _STEPS[-1]).weights["p"][-1, 0]
    return confirm_stray(Instance({**one.arrays, "p0": p}))


STATEMENT = Statement(
    "over-parameterized",
    title="All margins tight and Assumption D: every run ends at the best tokens",
    says="If every token but the best is tight (B.1) and every other selection that can be kept "
    "has an input whose best token is tight there (D), gradient descent tends to W^mm of the best "
    "tokens from every start (v1, conjecture 5.2; hunted along the normalized flow).",
    kind="conjecture",
    space=Space(
        {"n": (1, 3), "T": (2, 3), "d": (1, 4)},
        (
            Field("X", ("n", "T", "d")),
            Field("v", ("d",)),
            Field("y", ("n",), values=(1.0, -1.0)),
            Field("p0", ("d",), scale=2.0),
        ),
        fits=lambda s: s["d"] >= s["n"],
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    claims=("B.conjecture",),
    lines=(
        "tokens = attsvm.Tokens(X, labels=y)",
        "path = attsvm.train(tokens, model='prompt', head=v, optimizer='ngd', lr=0.05, steps=40000,"
        " init={'p': p0[None]})",
        "print(path.selection, attsvm.Selection.best(tokens, v).indices)",
    ),
    proves="a proof of convergence to other tokens; none can exist under D with strict scores",
    block=50,
)

"""B, Theorem 6, as a question: a first gradient that prefers the best tokens decides the end."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.statements.parts.descent import confirm_stray, loss_and_pull, smoothness
from attsvm.experiments.statements.parts.digits import DIGITS, look_at
from attsvm.experiments.statements.parts.facts import best_tokens, facts_of
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement

# Short steps of normalized descent follow the flow; plain descent is followed until it is proved.
_FLOW, _PLAIN = 1500, (3000, 30_000, 300_000)


def premises(one: Instance) -> bool:
    """Unique best tokens that can be kept, and −∇L(0) separates them."""
    best = best_tokens(one)
    if best is None or facts_of(one, best) is None:
        return False
    _, pull = loss_and_pull(one.tokens, one["v"], np.zeros((one["X"].shape[2], 1)))
    h = one["X"] @ pull[:, 0]
    ahead = h[np.arange(len(h)), best][:, None] - h
    return bool((ahead > 1e-12).sum() == h.size - len(h))


def _run(one: Instance, optimizer: str, lr: float, steps: int) -> Any:
    return train(
        one.tokens,
        model="prompt",
        head=one["v"],
        optimizer=optimizer,
        lr=lr,
        steps=steps,
        init="zero",
    )


def violation(one: Instance) -> float:
    """How far some best token is behind after a run that follows the flow from 0."""
    best = best_tokens(one)
    p = _run(one, "ngd", 0.02, _FLOW).weights["p"][-1, 0]
    h = one["X"] @ p
    ahead = h[np.arange(len(h)), best][:, None] - h
    return -float(ahead.min()) / float(np.linalg.norm(p)) - 1e-6


def confirm(one: Instance) -> Confirmation:
    """Plain descent from 0 with η = 1/L_W until a proof says that it ends elsewhere.

    The run up to the proof is in sixty digits where it is short, in floats where it is long.
    """
    lr = 1 / smoothness(one.tokens, one["v"])
    found = Confirmation(False, "proof of convergence", "no proof along the run")
    for steps in _PLAIN:
        p = _run(one, "gd", lr, steps).weights["p"][-1, 0]
        found = confirm_stray(Instance({**one.arrays, "p0": p}))
        if found.proved:
            break
    if not found.proved:
        return found
    how = "a run in floats, then a proof of convergence"
    if steps == _PLAIN[0]:
        how = "a run in sixty digits, then a proof of convergence"
        found = confirm_stray(Instance({**one.arrays, "p0": _counted_out(one, lr, steps)}))
    return Confirmation(
        found.proved, how, f"after {steps} steps of 1/L_W from 0: {found.says}", found.numbers
    )


def _counted_out(one: Instance, lr: float, steps: int) -> Floats:
    """Where plain descent from 0 is after so many steps, computed in sixty digits."""
    with localcontext(Context(prec=DIGITS)):
        W = [[Decimal(0)] for _ in range(one["X"].shape[2])]
        for _ in range(steps):
            pull = look_at(one, W).pull
            W = [[a[0] + Decimal(lr) * b[0]] for a, b in zip(W, pull, strict=True)]
        return np.array([float(a[0]) for a in W])


STATEMENT = Statement(
    "first-gradient",
    title="A first gradient that prefers the best tokens decides",
    says="If −∇L(0) separates the best token of every input from each other one, plain descent "
    "from 0 with steps of 1/L_W tends to W^mm of the best tokens (v1, Theorem 6, with short first "
    "steps).",
    kind="conjecture",
    space=Space(
        {"n": (2, 3), "T": (2, 2), "d": (2, 3)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",))),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    claims=("B.initial-gradient-condition",),
    lines=(
        "tokens = attsvm.Tokens(X, labels=np.ones(len(X)))",
        "path = attsvm.train(tokens, model='prompt', head=v, optimizer='ngd', lr=0.02, steps=1500,"
        " init='zero')",
        "print(path.selection, attsvm.Selection.best(tokens, v).indices)",
    ),
    proves="the run in floats (in sixty digits if short), then a proof of convergence in intervals",
    block=100,
)

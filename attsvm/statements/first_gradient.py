"""B, Theorem 6, as a question: a first gradient that prefers the best tokens decides the end."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from attsvm.doors import train
from attsvm.statements.parts.descent import confirm_stray, loss_and_pull, smoothness
from attsvm.statements.parts.digits import DIGITS, look_at
from attsvm.statements.parts.facts import best_tokens, facts_of
from attsvm.statements.statement import Confirmation, Field, Instance, Space, Statement

# Short steps of normalized descent follow the flow; plain steps are counted out in digits.
_FLOW, _PLAIN = 1500, 3000


def premises(one: Instance) -> bool:
    """Unique best tokens that can be kept, and −∇L(0) separates them."""
    best = best_tokens(one)
    if best is None or facts_of(one, best) is None:
        return False
    _, pull = loss_and_pull(one.tokens, one["v"], np.zeros((one["X"].shape[2], 1)))
    h = one["X"] @ pull[:, 0]
    ahead = h[np.arange(len(h)), best][:, None] - h
    return bool((ahead > 1e-12).sum() == h.size - len(h))


def _run(one: Instance, rule: str, lr: float, steps: int) -> Any:
    return train(
        one.tokens, model="prompt", head=one["v"], rule=rule, lr=lr, steps=steps, init="zero"
    )


def violation(one: Instance) -> float:
    """How far some best token is behind after a run that follows the flow from 0."""
    best = best_tokens(one)
    p = _run(one, "ngd", 0.02, _FLOW).weights["p"][-1, 0]
    h = one["X"] @ p
    ahead = h[np.arange(len(h)), best][:, None] - h
    return -float(ahead.min()) / float(np.linalg.norm(p)) - 1e-6


def confirm(one: Instance) -> Confirmation:
    """Plain descent from 0 with η = 1/L_W in sixty digits, then a proof at a step of it."""
    lr = 1 / smoothness(one.tokens, one["v"])
    path = _run(one, "gd", lr, _PLAIN)
    found = confirm_stray(Instance({**one.arrays, "p0": path.weights["p"][-1, 0]}))
    if not found.proved:
        return found
    with localcontext(Context(prec=DIGITS)):
        W = [[Decimal(0)] for _ in range(one["X"].shape[2])]
        for _ in range(_PLAIN):
            pull = look_at(one, W).pull
            W = [[a[0] + Decimal(lr) * b[0]] for a, b in zip(W, pull, strict=True)]
        near = np.array([float(a[0]) for a in W])
    again = confirm_stray(Instance({**one.arrays, "p0": near}))
    return Confirmation(
        again.proved,
        "proof of convergence",
        f"after {_PLAIN} steps of 1/L_W from 0, in sixty digits: {again.says}",
        again.numbers,
    )


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
        "path = attsvm.train(tokens, model='prompt', head=v, rule='ngd', lr=0.02, steps=1500,"
        " init='zero')",
        "print(path.selection, attsvm.Selection.best(tokens, v).indices)",
    ),
    proves="the run in sixty digits, then a proof of convergence in intervals",
    block=100,
)

"""start-ends: where plain descent is proved to end, from starts of some size."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.errors import Unsupported
from attsvm.experiments.sweep.group import Group


def proved_to_end(group: Group, flow_lr: float = 0.02, flow_steps: int = 2000) -> dict[str, Any]:
    """Whether plain descent with η = 1/L_W is proved to end at the best tokens, or elsewhere.

    It starts where the family says. Normalized steps of length flow_lr follow the flow on from
    there; the last columns are of what is proved then.
    """
    from attsvm.experiments.studies.shared.plain_descent import proved_end, smoothness

    starts = group.drawn.starts
    if starts is None:
        raise Unsupported("start-ends needs a family with starts, such as equal-scores")
    names = ("best", "elsewhere", "later_best", "later_elsewhere", "separable")
    out: dict[str, list[bool]] = {name: [] for name in names}
    flow = train(group.tokens, head=group.heads, optimizer="ngd", lr=flow_lr, steps=flow_steps,
                 init=starts)  # fmt: skip
    found = group.solved(group.best)
    ends = flow.weights["W"][-1]
    for t, v, W, M, c in zip(group.tokens, group.heads, starts["W"], ends, found, strict=True):
        lr = 1 / smoothness(t, v)
        at_start = proved_end(t, v, W, lr)
        later = at_start if at_start != "open" else proved_end(t, v, M, lr)
        out["best"].append(at_start == "best")
        out["elsewhere"].append(at_start == "elsewhere")
        out["later_best"].append(later == "best")
        out["later_elsewhere"].append(later == "elsewhere")
        out["separable"].append(bool(np.isfinite(c.upper)))
    return {name: np.array(values) for name, values in out.items()}

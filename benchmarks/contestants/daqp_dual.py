"""DAQP, a dual active-set solver for small dense quadratic programs: min ½‖w‖² s.t. F w ≥ 1."""

from __future__ import annotations

import numpy as np

from benchmarks.task import Answer, Task

# DAQP's word for 'no bound on this side'.
_NO_BOUND = 1e30


def answer(task: Task) -> list[Answer]:
    """The answer of DAQP to each problem."""
    import daqp

    out = []
    for k in range(task.stack):
        F = np.ascontiguousarray(task.features(k))
        m, size = F.shape
        w, _, flag, info = daqp.solve(
            np.eye(size),
            np.zeros(size),
            F,
            np.full(m, _NO_BOUND),
            np.ones(m),
            np.zeros(m, np.int32),
        )
        # A lower bound that is active has a negative multiplier in DAQP's convention.
        lam = -np.asarray(info["lam"], dtype=np.float64)[-m:]
        if flag > 0:
            W = np.asarray(w, dtype=np.float64).reshape(task.X.shape[3], -1)
            out.append(Answer(W, lam))
        else:
            out.append(Answer(None, lam))
    return out

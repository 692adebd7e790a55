"""How far a run in floats may stray from the exact iteration: a model of its rounding errors."""

from __future__ import annotations

import math

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.tube import Frame


def drift_of(tokens: Tokens, frame: Frame, W: Floats, h: float) -> float:
    """The rounding error of one step in floats, as a share of ‖W‖: of the sum, and of the
    direction through the logits and the gaps of scores, whose errors the weights inherit."""
    d, dq = W.shape
    keys = np.asarray(tokens.keys, dtype=np.float64)
    e = math.frexp(float(np.abs(keys).max(initial=0.0)))[1]
    longest = float(np.linalg.norm(np.ldexp(keys, -e), axis=2).max(initial=0.0))
    wide = float(np.linalg.norm(frame.rows.Z, axis=1).max(initial=0.0))
    turned = 2 * float(frame.active.N.hi) * float(frame.active.length.hi.max())
    logits = 2 * (d + dq + tokens.T + 16) * longest * wide
    scores = (tokens.d + 4) * frame.rows.blur / float(np.linalg.norm(W))
    return 2.0**-53 * (2 + h * turned * (logits + scores))


def float_steps(tokens: Tokens, frame: Frame, W: Floats, h: float, errors: float) -> int:
    """How many steps of length h from W have rounding errors of at most `errors` in all."""
    drift, R = drift_of(tokens, frame, W, h), float(np.linalg.norm(W))
    if errors <= 0:
        return 0
    room = errors / drift
    steps = room / R if h == 0 else (-R + math.sqrt(R * R + 2 * h * room)) / h
    return int(min(max(steps * (1 - 2.0**-40), 0.0), 1e15))

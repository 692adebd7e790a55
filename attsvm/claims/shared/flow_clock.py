"""The clock of mirror flow along a normalized run.

Normalized mirror descent, u ← u − η g/‖g‖_q, follows the curve of mirror flow, du/dt = −g, at
another speed: each step takes the flow the time η/‖g‖_q. The log of the sum of these times is
what the rates are functions of; it reaches hundreds where a run of constant steps has 10.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.ground.arrays import Floats, Ints
from attsvm.models.model import Evaluation
from attsvm.norms import Norm


def step_sizes(p: float, lr: float) -> Any:
    """The schedule (t + 1)^(p − 2) lr^(p − 2), as a function of the step.

    With step sizes lr times it, the dual variable grows like (lr t)^(p − 1), so the weights grow
    like lr t in every exponent, and no step is large beside them.
    """
    return lambda step: (lr * (step + 1.0)) ** (p - 2)


def log_slope(found: Evaluation, block: str, norm: Norm) -> Floats:
    """log ‖g‖_dual (R,) of one block of the gradients of a stack."""
    G = found.gradient.direction[block]
    sizes = [float(norm.dual(g if g.ndim == 2 else g[:, None])) for g in G]
    return np.log(sizes) + found.gradient.log_scale[block]


def flow_clock(steps: Ints, log_rate: Floats) -> Floats:
    """log of the flow time at each record, −inf at the first, from log(η/‖g‖) at the records.

    Between records log(η/‖g‖) is taken as straight in the step, which it nearly is:
    ∫ e^(a + (b − a)s) ds over n steps = n (e^b − e^a)/(b − a).
    """
    low, rise = np.minimum(log_rate[:-1], log_rate[1:]), np.abs(np.diff(log_rate))
    safe = np.maximum(rise, 1e-9)
    part = np.log(np.diff(steps)) + low + safe + np.log(-np.expm1(-safe)) - np.log(safe)
    return np.concatenate([[-np.inf], np.logaddexp.accumulate(part)])

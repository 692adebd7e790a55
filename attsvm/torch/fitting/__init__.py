"""Training a small real network by a plan: the same plan makes the same network, bit by bit.

data = attsvm.datasets.LABELLED["reviews"]()
fit = fitted(Plan(optimizer="mirror", p=1.1), data)
fit.test_accuracy
"""

from __future__ import annotations

from attsvm.torch.fitting.fit import data_of, fitted
from attsvm.torch.fitting.history import Fit, Record
from attsvm.torch.fitting.optimizers import OPTIMIZERS
from attsvm.torch.fitting.plan import Plan, plan_of, read_plan, read_settings

__all__ = [
    "OPTIMIZERS",
    "Fit",
    "Plan",
    "Record",
    "data_of",
    "fitted",
    "plan_of",
    "read_plan",
    "read_settings",
]

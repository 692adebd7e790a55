"""Optimizers of the theory, a monitor of attention and verdicts: `pip install 'attsvm[torch]'`.

    optimizer = attsvm.torch.MirrorDescent(attsvm.torch.groups(model, p=1.1), lr=1e-3)
    monitor = attsvm.torch.Monitor(model, optimizer)

The optimizers are torch.optim Optimizers: parameter groups, closures, schedulers, state_dict. Muon
and Adam are torch's own (`torch.optim.Muon`, `torch.optim.AdamW`).
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("attsvm.torch needs torch: pip install 'attsvm[torch]'") from error

from attsvm.torch.captures import Captured, capture
from attsvm.torch.fitting import Fit, Plan, data_of, fitted, plan_of, read_plan
from attsvm.torch.mirror import MirrorDescent
from attsvm.torch.models import Attention
from attsvm.torch.monitor import Monitor, Row
from attsvm.torch.networks import ImageClassifier, TextClassifier
from attsvm.torch.parameters import groups
from attsvm.torch.saturation import Saturation, SaturationWarning
from attsvm.torch.sources import Reading
from attsvm.torch.steepest import NormalizedGD, SteepestDescent

__all__ = [
    "Attention",
    "Captured",
    "Fit",
    "ImageClassifier",
    "MirrorDescent",
    "Monitor",
    "NormalizedGD",
    "Plan",
    "Reading",
    "Row",
    "Saturation",
    "SaturationWarning",
    "SteepestDescent",
    "TextClassifier",
    "capture",
    "data_of",
    "fitted",
    "groups",
    "plan_of",
    "read_plan",
]

"""Optimizers of the theory, a monitor of attention, a trainer, and capture; needs torch.

    optimizer = attsvm.torch.MirrorDescent(attsvm.torch.groups(model, p=1.1), lr=1e-3)
    monitor = attsvm.torch.Monitor(model)
    attsvm.compare(tokens, optimizers=["sign", attsvm.torch.as_optimizer(Lion, lr=1e-3)])

The optimizers are torch.optim Optimizers: parameter groups, closures, schedulers, state_dict. Muon
and Adam are torch's own (`torch.optim.Muon`, `torch.optim.AdamW`).
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("attsvm.torch needs torch: pip install '.[torch]'") from error

from attsvm.torch.as_optimizer import as_optimizer
from attsvm.torch.captures import Captured, capture
from attsvm.torch.config import TrainConfig, config_of
from attsvm.torch.fitting import FitResult, fit, load_data
from attsvm.torch.monitor import Monitor, MonitorRow, Saturation, SaturationWarning
from attsvm.torch.networks import Attention
from attsvm.torch.optimizers import MirrorDescent, NormalizedGD, SteepestDescent, groups

__all__ = [
    "Attention",
    "Captured",
    "FitResult",
    "MirrorDescent",
    "Monitor",
    "MonitorRow",
    "NormalizedGD",
    "Saturation",
    "SaturationWarning",
    "SteepestDescent",
    "TrainConfig",
    "as_optimizer",
    "capture",
    "config_of",
    "fit",
    "groups",
    "load_data",
]

"""Training, exactly: one loop, what it descends on, what it records."""

from attsvm.training.path import Path
from attsvm.training.train import train

__all__ = ["Path", "train"]

"""Training, exactly: one loop, what it descends on, what it records."""

from attsvm.training.front import train
from attsvm.training.path import Path

__all__ = ["Path", "train"]

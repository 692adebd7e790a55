"""Training, exactly: one loop, what it descends on, what it records."""

from attsvm.training.path import Path
from attsvm.training.train import train_tokens

__all__ = ["Path", "train_tokens"]

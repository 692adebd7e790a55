"""Gradients in graded form: sums of rank-one terms whose sizes are any distance apart."""

from __future__ import annotations

from attsvm.training.optimizers.graded.form import Graded
from attsvm.training.optimizers.graded.wide import Wide

__all__ = ["Graded", "Wide"]

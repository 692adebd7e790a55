"""Limits: in which norm a way of training maximizes the margin, and how surely."""

from attsvm.theory.limits.limit import Limit, predict

__all__ = ["Limit", "predict"]

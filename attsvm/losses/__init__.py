"""The losses, by name."""

from __future__ import annotations

from attsvm.errors import Unsupported
from attsvm.losses import exponential, linear, logistic, squared
from attsvm.losses.loss import Loss

LOSSES: dict[str, Loss] = {
    "logistic": logistic.LOSS,
    "exponential": exponential.LOSS,
    "linear": linear.LOSS,
    "squared": squared.LOSS,
}


def loss_of(loss: str | Loss) -> Loss:
    """The loss of this name; a Loss is handed back as it is."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise Unsupported(f"unknown loss {loss!r}: known are {', '.join(LOSSES)}")
    return LOSSES[loss]

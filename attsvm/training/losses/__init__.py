"""The losses, by name."""

from __future__ import annotations

from weakref import WeakSet

from attsvm._utils.expected import shown
from attsvm.errors import Unsupported
from attsvm.training.losses.loss import Loss, check_loss
from attsvm.training.losses.margin import EXPONENTIAL, LINEAR, LOGISTIC, SQUARED

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (LOGISTIC, EXPONENTIAL, LINEAR, SQUARED)}
# Losses that are known to keep the contract.
_FINE: WeakSet[Loss] = WeakSet(LOSSES.values())

__all__ = ["LOSSES", "Loss", "check_loss", "loss_of"]


def loss_of(loss: str | Loss) -> Loss:
    """The loss of this name; a custom Loss is checked once and returned."""
    if isinstance(loss, Loss):
        if loss not in _FINE:
            if loss.name in LOSSES:
                raise Unsupported(
                    f"the custom loss is named {loss.name!r}, as a listed one: give it another name"
                )
            kernels = {known.code: (known.value, known.slope) for known in LOSSES.values()}
            if loss.code is not None and kernels.get(loss.code) != (loss.value, loss.slope):
                raise Unsupported(
                    f"loss {loss.name!r} has the code {loss.code}, which stands for the value and "
                    "slope of a listed loss: leave it out"
                )
            check_loss(loss)
            _FINE.add(loss)
        return loss
    if not isinstance(loss, str):
        raise Unsupported(f"a loss is given by name, or as a Loss; this is {shown(loss)}")
    if loss not in LOSSES:
        raise Unsupported(f"unknown loss {shown(loss)}: known are {', '.join(LOSSES)}")
    return LOSSES[loss]

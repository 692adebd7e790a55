"""Records of a fit, and the fit itself: what was measured, and the network at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import positive
from attsvm.torch.fitting.plan import Plan
from attsvm.torch.networks import Network


class Record(NamedTuple):
    """What was measured after `step` steps; the step 0 is the initial network.

    loss and train_accuracy: over the first `measured` inputs for training. norm_K, norm_Q, norm_V:
    Frobenius, over all layers.
    """

    step: int
    epoch: float
    loss: float
    train_accuracy: float
    valid_accuracy: float
    test_accuracy: float
    norm_K: float
    norm_Q: float
    norm_V: float


@dataclass(frozen=True)
class Fit:
    """A trained network and its course. Accuracies are shares, 0 to 1.

    stopped: why it ended: epochs, stop_accuracy, patience or collapse. chance: the training
    accuracy of the most frequent class. seconds: of training and measuring.

    >>> from attsvm.torch import Plan, data_of, fitted
    >>> plan = Plan("images", data="digits", patch=4, train_count=50, epochs=1)
    >>> fit = fitted(plan, data_of(plan))
    >>> fit.parameters, len(fit["valid_accuracy"]) == len(fit.records)
    (69194, True)
    """

    plan: Plan
    network: Network
    records: tuple[Record, ...]
    stopped: str
    chance: float
    parameters: int
    seconds: float

    def __getitem__(self, name: str) -> Floats:
        """One column of the records, such as fit["valid_accuracy"]."""
        return np.array([getattr(record, name) for record in self.records], dtype=np.float64)

    @property
    def last(self) -> Record:
        """The last record."""
        return self.records[-1]

    @property
    def best(self) -> Record:
        """The first record with the best validation accuracy."""
        return max(self.records, key=lambda record: record.valid_accuracy)

    @property
    def test_accuracy(self) -> float:
        """The test accuracy at the record that validation chooses."""
        return self.best.test_accuracy

    @property
    def collapsed(self) -> bool:
        """Whether the loss left the finite numbers, or training accuracy ended at chance.

        At chance: within three standard errors of always saying the most frequent class.
        """
        if self.stopped == "collapse" or not math.isfinite(self.last.loss):
            return True
        error = math.sqrt(self.chance * (1 - self.chance) / self.plan.measured)
        return self.last.train_accuracy <= self.chance + 3 * error

    def at(self, train_accuracy: float) -> Record | None:
        """The first record with at least this training accuracy; None where it was not reached."""
        train_accuracy = positive(train_accuracy, "train_accuracy", zero=True)
        reached = (r for r in self.records if r.train_accuracy >= train_accuracy)
        return next(reached, None)

    def to_dict(self) -> dict[str, Any]:
        """What results.json holds."""
        return {
            "plan": self.plan.to_dict(),
            "stopped": self.stopped,
            "collapsed": self.collapsed,
            "chance": self.chance,
            "parameters": self.parameters,
            "seconds": self.seconds,
            "test_accuracy": self.test_accuracy,
            "best": self.best._asdict(),
            "last": self.last._asdict(),
            "records": [record._asdict() for record in self.records],
        }

    def __repr__(self) -> str:
        return (
            f"Fit({self.plan.task}, {self.plan.optimizer}: test accuracy {self.test_accuracy:.3f}, "
            f"training {self.last.train_accuracy:.3f}, {self.last.step} steps, {self.stopped})"
        )

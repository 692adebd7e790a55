"""The image networks that several studies look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.datasets.labelled import Labelled
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.networks import (
    Look,
    Plan,
    network_rows,
    train_network,
    weight_sizes,
)
from attsvm.experiments.table import Columns

if TYPE_CHECKING:
    from attsvm.torch.networks import Network

# The published runs: images of 48 × 48, six layers of width 512, 1,000 epochs. level: as far beyond
# the bound 1/√width of the initial weights as 0.06 is beyond that of width 384.
FULL: Plan = {
    "fit": {
        "task": "images", "patch": 4,
        "train_count": 4000, "valid_count": 1000, "test_count": 2500, "measured": 1500,
        "width": 32, "hidden": 64, "layers": 2, "heads": 4, "batch": 32, "epochs": 12,
    },
    "tuning": {"train_count": 2000, "test_count": 1000, "epochs": 6},
    "tuning_seeds": [100, 101], "first_rate": 0,
    "methods": {
        "p = 1.1": {"fit": {"optimizer": "mirror", "p": 1.1}, "rates": [0.01, 0.03, 0.1]},
        "p = 2": {"fit": {"optimizer": "sgd"}, "rates": [0.03, 0.1, 0.3]},
        "Adam": {"fit": {"optimizer": "adam"}, "rates": [5e-4, 2e-3, 5e-3]},
    },
    "look": {"inputs": 100, "maps": 4, "level": 0.208},
}  # fmt: skip
_SMALL = {"train_count": 600, "valid_count": 200, "test_count": 300, "patch": 7, "width": 16}
QUICK: Plan = {
    **FULL,
    "fit": {**FULL["fit"], **_SMALL, "epochs": 4, "measured": 300},
    "tuning": {"train_count": 300, "test_count": 100, "epochs": 2},
    "tuning_seeds": [100],
    "first_rate": 1,
    "look": {"inputs": 40, "maps": 4, "level": 0.295},
}


def measure(group: Group, method: str, plan: Plan) -> Columns:
    """The records of the networks of these seeds, with their weights and their attention.

    spread: 1/(T Σ s²), the share of the T tokens that a row s of attention is spread over (that is
    ‖s‖₁²/‖s‖₂² by T): the mean over test images, all rows, heads and layers. size: ‖K_hᵀ Q_h‖ over
    all heads and layers. map_sum, map_least: of the first token's row in the last layer over the
    patches, mean over heads, the largest sum and the least entry.
    """
    return network_rows(group, method, plan, train_on_images)


# What the studies on these networks have in common.
STUDIED: dict[str, Any] = {
    "kind": "figure",
    "grid": {"method": list(FULL["methods"])},
    "run": {"plan": FULL},
    "seeds": 3,
    "group": 1,
    "measure": measure,
    "needs": ("torch", "fashion"),
}


def train_on_images(run: Plan) -> Columns:
    """The records of one run."""
    return train_network(run, _looking)


def _looking(run: Plan, data: Labelled) -> Look:
    import torch

    about = run["look"]
    x = torch.from_numpy(np.array(data.test.inputs[: about["inputs"]], dtype=np.float32))

    def look(network: Network) -> dict[str, float]:
        maps = [a.double() for a in network.attention(x)]
        spread = [1 / (a.shape[-1] * (a**2).sum(dim=-1)) for a in maps]
        shown = maps[-1][: about["maps"], :, 0, 1:].mean(dim=1)
        return {
            "spread": float(torch.stack(spread).mean()),
            "size": sum(_squared_size(block.attend) for block in network.blocks) ** 0.5,
            "map_sum": float(shown.sum(dim=1).max()),
            "map_least": float(shown.min()),
            **weight_sizes(network, about["level"]),
        }

    return look


def _squared_size(attend: Any) -> float:
    """‖K_hᵀ Q_h‖² over all heads: the logits of a head are made of this matrix."""
    K, Q = (
        part.weight.double().unflatten(0, (attend.heads, -1)) for part in (attend.key, attend.query)
    )
    return float(((K.transpose(1, 2) @ Q) ** 2).sum())

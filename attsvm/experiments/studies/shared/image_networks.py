"""What claims on trained image networks share: one config, so that they look at the same runs."""

from __future__ import annotations

from attsvm.experiments.studies.claim import Config

# The published runs: images of 48 × 48, six layers of width 512, 1,000 epochs.
FULL: Config = {
    "fit": {
        "task": "images",
        "train_count": 4000,
        "valid_count": 1000,
        "test_count": 2500,
        "patch": 4,
        "width": 32,
        "hidden": 64,
        "layers": 2,
        "heads": 4,
        "batch": 32,
        "epochs": 12,
        "measured": 1500,
    },
    "tuning": {"train_count": 2000, "test_count": 1000, "epochs": 6},
    "methods": {
        "1.1": {"optimizer": "mirror", "p": 1.1},
        "2": {"optimizer": "sgd"},
        "Adam": {"optimizer": "adam"},
    },
    "rates": {"1.1": [0.01, 0.03, 0.1], "2": [0.03, 0.1, 0.3], "Adam": [5e-4, 2e-3, 5e-3]},
    "same_rate": {},
    "tuning_models": [100, 101],
    "models": [0, 1, 2],
    "look": 100,
    "images": 4,
    "matched": 0.8,
    # As far beyond the bound 1/√width of the initial weights as 0.06 is beyond that of width 384.
    "level": 0.208,
}
QUICK: Config = {
    **FULL,
    "fit": {
        **FULL["fit"],
        **{"train_count": 600, "valid_count": 200, "test_count": 300, "patch": 7, "width": 16},
        **{"epochs": 4, "measured": 300},
    },
    "tuning": {"train_count": 300, "test_count": 100, "epochs": 2},
    "rates": {method: rates[1:] for method, rates in FULL["rates"].items()},
    "tuning_models": [100],
    "models": [0, 1],
    "look": 40,
    "matched": 0.5,
    "level": 0.295,
}

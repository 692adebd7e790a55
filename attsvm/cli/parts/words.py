"""The names that help pages list, written out so that help loads no registry.

A test compares them with the registries; nothing but help and completion reads them.
"""

from __future__ import annotations

MODELS = ("prompt", "weight", "factored", "joint-prompt", "joint-weight")
SENTENCE_MODELS = ("next-token", "decoder", "joint-next-token")
OPTIMIZERS = (
    "gd",
    "ngd",
    "polyak",
    "mirror:P",
    "nmirror:P",
    "sign",
    "spectral",
    "signum",
    "muon",
    "adam",
)
HEADS = ("linear", "relu", "quadratic")
LOSSES = ("logistic", "exponential", "linear", "squared")
SCHEDULES = ("constant", "sqrt")
NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "lP")
READOUTS = ("softmax", "mass")
WEIGHTS = ("empirical", "uniform")
STYLES = ("screen", "paper")
EMBEDDINGS = ("orthonormal", "normal")

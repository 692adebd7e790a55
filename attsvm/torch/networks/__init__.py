"""Small transformers with keys, queries and values of their own, for experiments on real data."""

from __future__ import annotations

from attsvm.torch.networks.images import ImageClassifier
from attsvm.torch.networks.network import Network
from attsvm.torch.networks.text import TextClassifier

# By the task they are for.
NETWORKS: dict[str, type[Network]] = {"text": TextClassifier, "images": ImageClassifier}

__all__ = ["NETWORKS", "ImageClassifier", "Network", "TextClassifier"]

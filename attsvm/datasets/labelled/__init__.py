"""What the sets of labelled texts and images share: their three parts, words, places on disk."""

from __future__ import annotations

from attsvm.datasets.labelled.parts import Labelled, Part
from attsvm.datasets.labelled.words import Vocabulary

__all__ = ["Labelled", "Part", "Vocabulary"]

"""Instances by name: each function returns the arrays of one problem file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attsvm.datasets.instances import (
    contextual_arrays,
    joint_relaxed,
    joint_tight,
    multi_input_arrays,
    multi_input_planar,
    path_picture_1,
    path_picture_2,
    single_input_global,
    single_input_local,
    sphere_arrays,
    vocabulary_arrays,
)
from attsvm.datasets.labelled import Labelled
from attsvm.datasets.real import (
    digit_images,
    fashion_images,
    labelled_reviews,
    review_lines,
    text_of_csv,
)
from attsvm.datasets.sentences import closed, cyclic, paper_example, realizable, unconfused

EXAMPLES: dict[str, Callable[..., dict[str, Any]]] = {
    "single-input-global": single_input_global,
    "single-input-local": single_input_local,
    "multi-input": multi_input_arrays,
    "multi-input-planar": multi_input_planar,
    "joint-tight": joint_tight,
    "joint-relaxed": joint_relaxed,
    "path-picture-1": path_picture_1,
    "path-picture-2": path_picture_2,
    "vocabulary": vocabulary_arrays,
    "sphere": sphere_arrays,
    "contextual": contextual_arrays,
}

# The random ones: they take a seed.
FAMILIES = ("sphere", "contextual")

# Texts by name, each the lines of one file of sentences; all are random and take a seed.
SENTENCES: dict[str, Callable[..., list[list[int]]]] = {
    "sentences": realizable,
    "sentences-unconfused": unconfused,
    "sentences-closed": closed,
    "sentences-cyclic": cyclic,
}

# Texts of words by name, without a seed: a paper's own, and real ones, from packages that are
# installed apart.
TEXTS: dict[str, Callable[..., list[list[str]]]] = {
    "sentences-paper": paper_example,
    "reviews": review_lines,
}

# Labelled texts and images by name, in three parts; own-text takes a file.
LABELLED: dict[str, Callable[..., Labelled]] = {
    "reviews": labelled_reviews,
    "own-text": text_of_csv,
    "fashion": fashion_images,
    "digits": digit_images,
}

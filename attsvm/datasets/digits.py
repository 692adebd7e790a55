"""Handwritten digits: 1,797 pictures of 8 × 8, as scikit-learn brings them."""

from __future__ import annotations

import numpy as np

from attsvm.datasets.labelled.parts import ALL, Counts, Labelled, Part, by_hash, taken
from attsvm.errors import BadTokens


def digit_images(counts: Counts = ALL) -> Labelled:
    """Grey images (n, 8, 8) in [0, 1] and the digits they show, in three parts by hash."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise BadTokens(
            "the digits come with scikit-learn: pip install 'attsvm[sklearn]'"
        ) from error
    found = load_digits()
    X, y = (found.images / 16).astype(np.float32), found.target.astype(np.int64)
    places = taken(by_hash(X, y, key=lambda image: image.tobytes()), counts, "digits")
    parts = [Part(X[k], y[k]) for k in places]
    return Labelled("digits", "images", tuple("0123456789"), *parts)

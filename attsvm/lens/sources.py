"""Sources: digests of what an inspection read, so that an audit knows whether it reads the same.

The digests of a model's files are plain SHA-256 of their bytes: `sha256sum` gives the same, and so
do the pages of places that models are downloaded from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attsvm.ground.progress import working
from attsvm.lens.checkpoints import folder_of, read_files

# Bytes read at once.
_BYTES = 1 << 20


def model_digests(model: str | Path) -> dict[str, str]:
    """SHA-256 of every file that `attsvm.lens.load` reads for this model, by name."""
    folder, package = folder_of(model)
    found = {}
    with working("digests of the model's files"):
        for file in read_files(folder, package):
            digest = hashlib.sha256()
            with file.open("rb") as stream:
                while block := stream.read(_BYTES):
                    digest.update(block)
            found[file.name] = digest.hexdigest()
    return found


def text_digest(texts: Sequence[str]) -> str:
    """SHA-256 of the passages in UTF-8, each ended by a zero byte.

    >>> text_digest(["One.", "Two."])[:16]
    '4c5017c8c31d5b21'
    """
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def sources_of(
    model: str | Path, against: str | Path | None, texts: Sequence[str]
) -> dict[str, Any]:
    """The digests of what an inspection read: model, earlier model, text."""
    return {
        "model": model_digests(model),
        "against": None if against is None else model_digests(against),
        "text": text_digest(texts),
    }

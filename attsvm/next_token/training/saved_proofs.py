"""Proofs on sentences as `.npz` files: those of tokens, with sentences, vectors and decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.expected import file_path
from attsvm._utils.files import load_arrays, write_arrays
from attsvm.errors import BadTokens
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.proofs import SentenceProof, sentence_tokens
from attsvm.next_token.training.task import Lesson
from attsvm.theory.convergence.proof import ConvergenceProof, arrays_of, check_arrays, read_proof

_PARTS = ("words", "labels", "counts", "lines", "follows", "follow_counts")


def save_proof(proof: SentenceProof, path: str | Path, *, force: bool = False) -> None:
    """Write the proof, its sentences and its witness in one move."""
    lesson = proof.lesson
    more: dict[str, Any] = {
        f"sentences.{name}": np.asarray(getattr(lesson.sentences, name)) for name in _PARTS
    }
    more |= {
        "sentences.E": lesson.E,
        "sentences.weights": np.str_(lesson.weights),
        "sentences.readout": np.str_(lesson.readout),
    }
    write_arrays(file_path(path, "path"), arrays_of(proof) | more, force=force)


def load_proof(path: str | Path) -> SentenceProof:
    """The proof in a file; raises BadTokens where it is none, or not of sentences."""
    file = file_path(path, "path")
    found = load_arrays(file)
    check_arrays(file, found)
    names = [f"sentences.{name}" for name in (*_PARTS, "E", "weights", "readout")]
    missing = [name for name in names if name not in found]
    if missing:
        raise BadTokens(f"{file} is not a proof on sentences: it has no array {missing[0]}")
    whole = {name: found[f"sentences.{name}"] for name in _PARTS}
    if any(array.dtype.kind not in "iu" for array in whole.values()):
        raise BadTokens(f"{file}: the sentences are not whole numbers")
    sentences = Sentences(**{name: array.astype(np.int64) for name, array in whole.items()})
    readout = str(found["sentences.readout"])
    lesson = Lesson.of(
        sentences,
        "next-token",
        head=None if readout == "mass" else found["head"],
        embedding=found["sentences.E"],
        readout=readout,
        weights=str(found["sentences.weights"]),
    )
    shape = (0, 0) if lesson.mass else lesson.E.shape
    proof = read_proof(file, found, sentence_tokens(lesson), shape)
    fields = {name: getattr(proof, name) for name in ConvergenceProof.__dataclass_fields__}
    return SentenceProof(**fields | {"lesson": lesson})

"""Proofs of convergence on disk: all that a recheck needs, in one `.npz` file without pickles.

Loading checks kinds and shapes and believes no claim: `load(path).verify()` is the recheck here,
`tools/check_proof.py` the one that shares no code with this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.expected import file_path
from attsvm._utils.files import load_arrays, write_arrays
from attsvm.errors import BadTokens
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.proof import Blocked, ConvergenceProof

VERSION = 1
_THEOREMS = ("", "tube", "cone", "level", "power cone")
_WORDS = ("optimizer", "loss", "theorem", "blocked")
_ARRAYS = ("X", "queries", "head", "W", "selection", "lr", "longest_step", "float_steps")
# What of the tokens may be absent.
_OPTIONAL = ("keys", "labels", "mask", "source")
_TEXT = {"mode"}


def save_proof(proof: ConvergenceProof, path: str | Path, *, force: bool = False) -> None:
    """Write the proof, its data and its witness in one move."""
    write_arrays(file_path(path, "path"), arrays_of(proof), force=force)


def arrays_of(proof: ConvergenceProof) -> dict[str, Any]:
    """All that a saved proof holds, by name."""
    tokens = proof.tokens
    blocked = proof.blocked
    kept: dict[str, Any] = {
        "attsvm_proof": np.int64(VERSION),
        "X": np.asarray(tokens.X, np.float64),
        "queries": tokens.queries,
        "head": proof.head,
        "W": proof.W,
        "selection": proof.selection.astype(np.int64),
        "optimizer": np.str_(proof.optimizer),
        "loss": np.str_(proof.loss),
        "lr": np.float64(proof.lr),
        "theorem": np.str_(proof.theorem or ""),
        "longest_step": np.float64(proof.longest_step),
        "float_steps": np.int64(proof.float_steps),
        "blocked": np.str_("" if blocked is None else blocked.reason),
    }
    if tokens.keys is not tokens.X:
        kept["keys"] = np.asarray(tokens.keys, np.float64)
    for name in ("labels", "mask", "source"):
        if getattr(tokens, name) is not None:
            kept[name] = getattr(tokens, name)
    if proof.direction is not None:
        kept["direction"] = proof.direction
    if blocked is not None:
        kept["blocked_norm"] = np.float64(blocked.norm)
        if blocked.row is not None:
            kept["blocked_row"] = np.array(blocked.row, dtype=np.int64)
    kept |= {f"constants.{name}": np.float64(x) for name, x in proof.constants.items()}
    for name, value in proof.witness.items():
        kept[f"witness.{name}"] = np.str_(value) if name in _TEXT else np.asarray(value)
    return kept


def load_proof(path: str | Path) -> ConvergenceProof:
    """The proof in a file: what it claims, of the data it holds.

    Raises BadTokens where an array is missing, of another kind or shape, or not finite.
    """
    file = file_path(path, "path")
    found = load_arrays(file)
    check_arrays(file, found)
    if "sentences.E" in found:
        raise BadTokens(
            f"{file} is a proof on sentences: load it with next_token.SentenceProof.load"
        )
    tokens = Tokens(
        found["X"],
        queries=found["queries"],
        **{name: found[name] for name in _OPTIONAL if name in found},
    )
    return read_proof(file, found, tokens, (tokens.d,))


def check_arrays(file: Path, found: dict[str, Any]) -> None:
    """Raises BadTokens unless these are the arrays of a proof."""
    version = found.get("attsvm_proof")
    if version is None:
        raise BadTokens(f"{file} is not a saved proof: it has no array attsvm_proof")
    if version.dtype.kind not in "iu" or version.ndim or int(version) != VERSION:
        raise BadTokens(
            f"{file} has proof format {version.tolist()!r}; this version reads {VERSION}"
        )
    for name in (*_WORDS, *_ARRAYS):
        if name not in found:
            raise BadTokens(f"{file} is not a whole proof: it has no array {name}")
        kind = "U" if name in _WORDS else "iuf"
        if found[name].dtype.kind not in kind:
            raise BadTokens(f"{file}: {name} has type {found[name].dtype}")
    theorem = str(found["theorem"])
    if theorem not in _THEOREMS:
        known = ", ".join(_THEOREMS[1:])
        raise BadTokens(f"{file}: unknown theorem {theorem!r}; known are {known}")


def read_proof(
    file: Path, found: dict[str, Any], tokens: Tokens, head: tuple[int, ...]
) -> ConvergenceProof:
    """The proof of these arrays about these tokens; head: the shape that the head must have."""
    theorem = str(found["theorem"])
    shape = (tokens.keys.shape[2], tokens.queries.shape[1])
    for name, wanted in (("W", shape), ("head", head), ("selection", (tokens.n,))):
        if found[name].shape != wanted:
            raise BadTokens(f"{file}: {name} has shape {found[name].shape}; it must be {wanted}")
        if not np.isfinite(found[name]).all():
            raise BadTokens(f"{file}: {name} is not finite")
    alpha = found["selection"].astype(np.int64)
    if ((alpha < 0) | (alpha >= tokens.T)).any():
        raise BadTokens(f"{file}: selection holds a token that is not there")
    blocked: Blocked | None = None
    if reason := str(found["blocked"]):
        row = found.get("blocked_row")
        pair = None if row is None or row.shape != (2,) else (int(row[0]), int(row[1]))
        blocked = Blocked(reason, pair, float(found.get("blocked_norm", np.float64(np.nan))))
    if not theorem and blocked is None:
        raise BadTokens(f"{file}: nothing is proved, and nothing is said to block it")
    proved: Any = theorem or None
    return ConvergenceProof(
        tokens,
        np.asarray(found["head"], np.float64),
        np.asarray(found["W"], np.float64),
        str(found["optimizer"]),
        float(found["lr"]),
        str(found["loss"]),
        alpha,
        proved,
        _part(found, "constants."),
        _part(found, "witness."),
        found.get("direction"),
        float(found["longest_step"]),
        int(found["float_steps"]),
        blocked,
    )


def _part(found: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The entries whose names begin so, without the prefix; single values as plain ones."""
    out: dict[str, Any] = {}
    for name, value in found.items():
        if name.startswith(prefix):
            out[name.removeprefix(prefix)] = value if value.ndim else value.item()
    return out

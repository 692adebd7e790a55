"""A claim's run recorded, and replayed from what was saved to see whether it can have made it.

A replay draws the instances again from the config and takes from the file only what the ledger of
claims/shared/ledger.py kept. Where it knows an entry of the result, the file must hold the same.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm.claims.claim import Claim, Config, Result, lawful_result
from attsvm.claims.shared.ledger import LEDGER, UNKNOWN, WITHIN, Ledger, Piece, opened
from attsvm.errors import AttsvmError

# A difference that says nothing, whatever the size of the entries.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Replayed:
    """What a replay found: doubts, one sentence each, and every piece of work of the run.

    known, entries: how many of the numbers on file the replay could tell, and how many there are.
    """

    doubts: tuple[str, ...]
    pieces: tuple[Piece, ...]
    known: int = 0
    entries: int = 0


def recorded(claim: Claim, config: Config) -> Result:
    """The result of a run, with the arrays of its ledger."""
    with opened(Ledger()) as ledger:
        result = lawful_result(claim, claim.run(config))
    return {**result, **ledger.closed()}


def has_ledger(saved: Result) -> bool:
    """Whether the arrays on file can be replayed."""
    return any(name.startswith(LEDGER) for name in saved)


def replayed(
    claim: Claim,
    config: Config,
    saved: Result,
    *,
    chosen: frozenset[Piece] | None = frozenset(),
) -> Replayed:
    """The Replayed of the arrays on file; chosen pieces are run again in full, None: all.

    What it tells is compared within the widest of WITHIN of the chosen pieces.
    """
    ledger = Ledger(saved=saved, chosen=chosen)
    try:
        with opened(ledger), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # arrays that no run made: what they do is counted
            again = claim.run(config)
    except Exception as error:  # whatever arrays that no run made can cause
        said = str(error).rstrip(".")
        if not isinstance(error, AttsvmError):
            said = f"the run cannot be replayed from it ({type(error).__name__}: {said})"
        return Replayed((said,), tuple(ledger.pieces))
    kinds = {kind for kind, _, _ in (ledger.pieces if chosen is None else chosen)}
    within = max(WITHIN[kind] for kind in {"step", *kinds})
    doubts, known, entries = _differences(saved, again, within, ledger.proved)
    return Replayed(tuple(doubts), tuple(ledger.pieces), known, entries)


def _differences(
    saved: Result, again: Result, within: float, proved: set[tuple[str, int]]
) -> tuple[list[str], int, int]:
    """(one sentence for each array that is not the one on file, numbers known, numbers).

    proved: solutions (name, place) that need no comparison.
    """
    mine = {name: np.asarray(a) for name, a in again.items()}
    kept = {name: a for name, a in saved.items() if not name.startswith(LEDGER)}
    doubts = [f"the array {name} is not on file" for name in mine if name not in kept]
    doubts += [f"the run makes no array {name}" for name in kept if name not in mine]
    known = entries = 0
    for name, a in mine.items():
        if name not in kept:
            continue
        told = _told(a)
        name_of = name.rpartition(".")[0]
        sure = [b for owner, b in proved if owner == name_of]
        known, entries = known + int(told.sum()), entries + a.size
        if sure and told.ndim and max(sure) < len(told):
            told[sure] = False
        said = _apart(np.asarray(kept[name]), a, told, within)
        if said:
            doubts.append(f"{name}{said}")
    return doubts, known, entries


def _told(a: Any) -> Any:
    """Which entries a replay knows."""
    if a.dtype.kind == "f":
        return np.asarray(~np.isnan(a))
    if a.dtype.kind in "iu":
        return np.asarray(a != UNKNOWN)
    return np.ones(a.shape, dtype=bool)


def _apart(saved: Any, again: Any, told: Any, within: float) -> str:
    """Where and how far the two are apart; empty when they are not."""
    if saved.shape != again.shape or saved.dtype.kind != again.dtype.kind:
        return (
            f" is an array {saved.shape} of kind {saved.dtype.kind} on file, and "
            f"{again.shape} of kind {again.dtype.kind} in the run"
        )
    if again.dtype.kind != "f":
        wrong = told & (saved != again)
        excess = wrong.astype(np.float64)
    else:
        axes = tuple(range(again.ndim))[-2:]
        size = np.max(np.abs(again), axis=axes, keepdims=True, where=told, initial=0.0)
        with np.errstate(invalid="ignore"):
            off = np.where(saved == again, 0.0, np.abs(saved - again))  # infinities are equal
        wrong = told & ~(off <= within * size + _ROUNDING)
        excess = np.where(wrong, np.nan_to_num(off, nan=np.inf, posinf=np.inf), 0.0)
    if not wrong.any():
        return ""
    place = tuple(int(k) for k in np.unravel_index(int(np.argmax(excess)), again.shape))
    where = f"[{', '.join(map(str, place))}]" if place else ""
    return (
        f"{where} is {_shown(saved[place])} on file, {_shown(again[place])} when it is made again"
    )


def _shown(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, np.floating) else str(value)

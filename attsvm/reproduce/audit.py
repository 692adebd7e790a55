"""Audit: a random part of every claim's work done again and compared with what is saved.

Nothing in the folder is trusted and nothing in it is changed. Digests and late steps are checked
first, as `judge` does; then a random share of the pieces of work (the instance of a run, a search,
a solution) is done again from the config alone, and every entry it tells is compared. Whoever
invents a whole result, digests and all, does not know which pieces will be asked for.
"""

from __future__ import annotations

import json
import secrets
import time
import zlib
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from attsvm.claims import claim_of
from attsvm.claims.claim import Claim, Config, Result
from attsvm.claims.shared.ledger import WITHIN, Piece
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.ground.files import load_arrays
from attsvm.ground.records import Say
from attsvm.reproduce.digests import misfits
from attsvm.reproduce.draws import config_on_file
from attsvm.reproduce.folder import Record, opened, rerun_command
from attsvm.reproduce.judging import EMPTY
from attsvm.reproduce.outside import known_claims
from attsvm.reproduce.processes import Watch, in_processes
from attsvm.reproduce.replay import has_ledger, replayed
from attsvm.reproduce.runs import at_hand, chosen_ids, workers

# The share of the pieces of work that is done again, unless another is asked for.
SHARE = 0.1


def audit_claims(
    claims: Sequence[str] = (),
    *,
    out: str | Path,
    seed: int | None = None,
    share: float = SHARE,
    jobs: int = 1,
    source: str | Path | None = None,
    watch: Watch | None = None,
    say: Say | None = None,
) -> dict[str, Any]:
    """{seed, share, seconds, claims: [{id, agrees, doubts, rerun, pieces, within, seconds}]}.

    claims: ids or paper letters; all on file without. seed: of the choice of pieces, drawn and
    reported without one. share: in (0, 1], at least one piece of every claim. doubts: one sentence
    each, naming the array and the entry; rerun of so many pieces; within: the tolerance. source: a
    Python file whose claims are taken in place of the package's.
    """
    if not 0 < share <= 1:
        raise Unsupported(f"share is {share:g}: it must be above 0 and at most 1")
    seed = secrets.randbits(32) if seed is None else seed
    folder = opened(Path(out))
    tell, speak = watch or (lambda name, state: None), say or (lambda sentence: None)
    known = known_claims(source)
    chosen = chosen_ids(claims, known, real=None)
    names = [name for name in chosen if (folder / "claims" / f"{name}.json").exists()]
    lost = [name for name in chosen if claims and name not in names]
    if lost or not names:
        what = f"{lost[0]} is not on file" if lost else "no claim is on file"
        raise BadTokens(f"{what} in {folder}: run it first, `attsvm reproduce --out {folder}`")
    names = at_hand(names, known, named=claims, say=speak)
    began = time.perf_counter()
    found: dict[str, dict[str, Any]] = {}

    def told(name: str, text: str) -> None:
        if text.startswith("{"):
            found[name] = json.loads(text)
            text = "agrees" if found[name]["agrees"] else "differs"
        tell(name, text)

    for name in names:
        told(name, "waiting")
    count = min(workers(jobs), len(names))
    given = (str(folder), seed, share, None if source is None else str(source))
    if count > 1:
        in_processes(audit_one, names, given=given, jobs=count, tell=told)
    else:
        for name in names:
            told(name, "running")
            told(name, audit_one(name, *given))
    rows = [found[name] for name in names]
    for row in rows:
        if not row["agrees"]:
            more = f" ({len(row['doubts']) - 1} more)" if len(row["doubts"]) > 1 else ""
            speak(f"{row['id']}: {row['doubts'][0]}{more}")
    seconds = time.perf_counter() - began
    return {"seed": seed, "share": share, "seconds": seconds, "claims": rows}


def audit_one(name: str, folder: str, seed: int, share: float, source: str | None = None) -> str:
    """What the audit of one claim found, as JSON."""
    began = time.perf_counter()
    row: dict[str, Any] = {"rerun": 0, "pieces": 0, "within": None}
    try:
        row |= _compared(claim_of(name, known_claims(source)), Path(folder), seed, share)
    except AttsvmError as error:
        row["doubts"] = [str(error)]
    row |= {"id": name, "agrees": not row["doubts"], "seconds": time.perf_counter() - began}
    return json.dumps(row)


def _compared(claim: Claim, folder: Path, seed: int, share: float) -> dict[str, Any]:
    """The doubts about one claim on file; an AttsvmError where it cannot be compared."""
    record, config = _record(claim, folder)
    if "error" in record or EMPTY in record:
        return {"doubts": []}  # nothing was saved, and its verdict says so
    file = folder / "claims" / f"{claim.id}.npz"
    saved = load_arrays(file)
    doubts = misfits(file, record) if has_ledger(saved) else []
    if has_ledger(saved):
        first = replayed(claim, config, saved)
        doubts += first.doubts
        if doubts:  # no rerun can mend them
            return {"doubts": doubts, "pieces": len(first.pieces)}
        chosen = _chosen(claim.id, first.pieces, seed, share)
        count, rerun = len(first.pieces), len(chosen)
        # One kind at a time: each has its own tolerance.
        parts = [frozenset(p for p in chosen if p[0] == kind) for kind in WITHIN]
        for part in filter(None, parts):
            doubts += replayed(claim, config, saved, chosen=part).doubts
        within = max((WITHIN[kind] for kind, _, _ in chosen), default=WITHIN["step"])
    else:
        again = replayed(claim, config, saved, chosen=None)
        doubts += again.doubts
        count = rerun = len(again.pieces)
        within = max((WITHIN[kind] for kind, _, _ in again.pieces), default=WITHIN["step"])
    doubts = list(dict.fromkeys([*doubts, *_verdict(claim, config, record, saved)]))
    return {"doubts": doubts, "rerun": rerun, "pieces": count, "within": within}


def _record(claim: Claim, folder: Path) -> tuple[Record, Config]:
    """The record on file and the config it was run with."""
    file = folder / "claims" / f"{claim.id}.json"
    try:
        record = json.loads(file.read_text("utf-8"))
        config = config_on_file(claim, record)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        redo = f"run it again (`attsvm reproduce {claim.id} --again`)"
        raise BadTokens(f"{file.name} cannot be read: {redo}") from error
    if config is None:
        raise BadTokens(
            f"it was run with another config, of another version: run it again "
            f"(`{rerun_command(record)} --again`)"
        )
    return record, config


def _chosen(name: str, pieces: Sequence[Piece], seed: int, share: float) -> frozenset[Piece]:
    """A random share of each kind of piece, at least one of each."""
    draw = np.random.default_rng([seed, zlib.crc32(name.encode())])
    out: list[Piece] = []
    for kind in WITHIN:
        mine = [piece for piece in pieces if piece[0] == kind]
        if mine:
            places = draw.choice(len(mine), ceil(share * len(mine)), replace=False)
            out += [mine[int(k)] for k in places]
    return frozenset(out)


def _verdict(claim: Claim, config: Config, record: Record, saved: Result) -> list[str]:
    """A sentence when the verdict on file is not the one of the arrays on file."""
    try:
        verdict: str = claim.check(config, saved).verdict
    except Exception as error:  # arrays that no run made
        return [f"the arrays on file cannot be judged ({type(error).__name__}: {error})"]
    if verdict == record.get("verdict") or record.get("doubts"):
        return []
    return [f"the verdict on file is {record.get('verdict')}, that of the arrays is {verdict}"]

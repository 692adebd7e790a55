"""Audit: a random share of the claims on file run again whole, and compared with their records."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from math import ceil, isclose, isnan
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import Say, parse_json
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.experiments.reproduce.draws import config_on_file
from attsvm.experiments.reproduce.folder import Record, open_folder, rerun_command
from attsvm.experiments.reproduce.judging import broken, empty, judged
from attsvm.experiments.reproduce.outside import known_claims
from attsvm.experiments.reproduce.processes import Watch, in_processes
from attsvm.experiments.reproduce.runs import at_hand, chosen_ids, workers
from attsvm.experiments.studies import claim_of
from attsvm.experiments.studies.claim import BadClaim, Claim, Config, NothingInside, lawful_result

# The share of the claims that is run again, unless another is asked for.
SHARE = 0.1
# Two numbers agree within this, relative to the larger one, or when they are this near to zero.
WITHIN = 1e-6
_ZERO = 1e-12


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
    """{seed, share, within, of, seconds, claims: [{id, agrees, differences, seconds}]}.

    The verdict and every judged number of the claims that were drawn are compared; times are not.
    Nothing in the folder is changed. claims: ids or paper letters; all on file without. seed: of
    the draw, chosen and reported without one. share: in (0, 1], of the claims; at least one claim
    is run. of: how many there were to draw from. differences: one sentence each. source: a Python
    file whose claims are taken in place of the package's.
    """
    if not 0 < share <= 1:
        raise Unsupported(f"share is {share:g}: it must be above 0 and at most 1")
    seed = secrets.randbits(32) if seed is None else seed
    folder = open_folder(Path(out))
    tell, speak = watch or (lambda name, state: None), say or (lambda sentence: None)
    known = known_claims(source)
    asked = chosen_ids(claims, known, real=None)
    names = [name for name in asked if (folder / "claims" / f"{name}.json").exists()]
    lost = [name for name in claims if name in asked and name not in names]
    if lost or not names:
        what = f"{lost[0]} is not on file" if lost else "no claim is on file"
        raise BadTokens(f"{what} in {folder}: run it first, `attsvm reproduce --out {folder}`")
    names = at_hand(names, known, named=claims, say=speak)
    places = np.random.default_rng(seed).choice(len(names), ceil(share * len(names)), replace=False)
    drawn = [names[k] for k in sorted(places)]
    began = time.perf_counter()
    found: dict[str, dict[str, Any]] = {}

    def told(name: str, text: str) -> None:
        if text.startswith("{"):
            found[name] = json.loads(text)
            text = "agrees" if found[name]["agrees"] else "differs"
        tell(name, text)

    for name in drawn:
        told(name, "waiting")
    count = min(workers(jobs), len(drawn))
    given = (str(folder), None if source is None else str(source))
    if count > 1:
        in_processes(audit_one, drawn, given=given, jobs=count, tell=told)
    else:
        for name in drawn:
            told(name, "running")
            told(name, audit_one(name, *given))
    rows = [found[name] for name in drawn]
    for row in rows:
        for words in row["differences"]:
            speak(f"{row['id']}: {words}")
    about = {"seed": seed, "share": share, "within": WITHIN, "of": len(names)}
    return {**about, "seconds": time.perf_counter() - began, "claims": rows}


def audit_one(name: str, folder: str, source: str | None = None) -> str:
    """What the audit of one claim found, as JSON."""
    began = time.perf_counter()
    try:
        claim = claim_of(name, known_claims(source))
        record, config = _on_file(claim, Path(folder))
        apart = list(differences(record, _run_again(claim, config)))
    except AttsvmError as error:
        apart = [str(error)]
    seconds = time.perf_counter() - began
    return json.dumps({"id": name, "agrees": not apart, "differences": apart, "seconds": seconds})


def differences(kept: Record, again: Record) -> Iterator[str]:
    """One sentence for the verdict, and for each judged number, that is not the same."""
    if kept["verdict"] != again["verdict"]:
        yield f"the verdict is {kept['verdict']} on file, {again['verdict']} when it is run again"
    one, two = ({row["what"]: row["seen"] for row in r["numbers"]} for r in (kept, again))
    for what in dict.fromkeys([*one, *two]):
        if what not in one or what not in two:
            yield f"{what} is only {'on file' if what in one else 'in the new run'}"
        elif not _same(float(one[what]), float(two[what])):
            yield f"{what} is {one[what]} on file, {two[what]} when it is run again"


def _same(a: float, b: float) -> bool:
    return (isnan(a) and isnan(b)) or isclose(a, b, rel_tol=WITHIN, abs_tol=_ZERO)


def _run_again(claim: Claim, config: Config) -> Record:
    """The record of a new run with this config; nothing is written."""
    try:
        return judged(claim, config, lawful_result(claim, claim.run(config)), {})
    except BadClaim:
        raise
    except NothingInside as error:
        return empty(claim, config, {}, error)
    except Exception as error:  # a claim that cannot be run is undecided, as in a reproduction
        return broken(claim, config, {}, error)


def _on_file(claim: Claim, folder: Path) -> tuple[Record, Config]:
    """The record on file and the config it was run with."""
    file = folder / "claims" / f"{claim.id}.json"
    try:
        record = parse_json(file.read_text("utf-8"))
        config = config_on_file(claim, record)
        list(differences(record, record))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        redo = f"run it again (`attsvm reproduce {claim.id} --again`)"
        raise BadTokens(f"{file.name} cannot be read: {redo}") from error
    if config is None:
        raise BadTokens(
            f"it was run with another config, of another version: run it again "
            f"(`{rerun_command(record)} --again`)"
        )
    return record, config

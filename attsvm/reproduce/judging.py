"""Claims judged and drawn from what was saved; nothing is run."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attsvm.claims import CLAIMS
from attsvm.claims.claim import (
    Claim,
    Config,
    Finding,
    NothingInside,
    Result,
    config_hash,
    describe,
    lawful_part,
)
from attsvm.claims.shared.needs import missing
from attsvm.errors import AttsvmError
from attsvm.ground.files import load_arrays
from attsvm.ground.records import Say, write_json
from attsvm.ground.version import __version__
from attsvm.reproduce.digests import DIGESTS, misfits
from attsvm.reproduce.draws import config_on_file
from attsvm.reproduce.folder import (
    NARROW,
    OUTSIDE,
    PICTURES,
    Record,
    gather,
    judged_words,
    opened,
    read_record,
    set_aside,
)
from attsvm.reproduce.outside import claims_from
from attsvm.reproduce.replay import replayed

# A record of a claim that had nothing to judge has this name, and no arrays.
EMPTY = "empty"
# What a record keeps when it is judged again.
_TIMES = ("seconds", "cpu_seconds", "compile_seconds")
_ABOUT = ("config", "digest", "quick", *_TIMES, DIGESTS, OUTSIDE)


def judged(claim: Claim, config: Config, result: Result, about: dict[str, Any]) -> Record:
    """The record of a claim, judged from its result."""
    found = lawful_part(claim, "check", claim.check(config, result), "Finding")
    return _record(claim, config, found, about)


def _record(claim: Claim, config: Config, found: Finding, about: dict[str, Any]) -> Record:
    return {
        "id": claim.id,
        "paper": claim.paper,
        "title": claim.title,
        "kind": claim.kind,
        "trust": claim.trust,
        "statement": claim.statement,
        "verdict": found.verdict,
        "numbers": [describe(test) for test in found.tests],
        "premises": found.premises,
        "judged": found.judged,
        "gap": found.gap,
        "reason": found.reason,
        "differs": claim.differs,
        "reference": claim.reference,
        "hash": config_hash(config),
        "version": __version__,
        **about,
    }


def broken(claim: Claim, config: Config, about: dict[str, Any], error: Exception) -> Record:
    """The record of a claim that could not be run or judged."""
    said = textwrap.shorten(f"{type(error).__name__}: {error}", 300, placeholder=" …")
    found = Finding((), "", 0, float("inf"), f"it could not be run or judged ({said})")
    return {**_record(claim, config, found, about), "error": said}


def empty(claim: Claim, config: Config, about: dict[str, Any], why: NothingInside) -> Record:
    """The record of a claim whose premises leave no instance: undecided, with the count."""
    found = Finding((), str(why), 0, 0.0, f"nothing is left to judge: {why}")
    return {**_record(claim, config, found, about), EMPTY: True}


def doubted(record: Record, doubts: Sequence[str]) -> Record:
    """The record of a claim whose arrays on file are not those of its run: nothing is decided."""
    reason = f"what is saved is not what the run makes: {doubts[0]}"
    return {**record, "verdict": "undecided", "reason": reason, "doubts": list(doubts)}


def judge(
    folder: str | Path, *, source: str | Path | None = None, say: Say | None = None
) -> list[Record]:
    """The records on file, judged again from the saved arrays; no instance is run.

    Arrays that do not fit their digests, a run that does not end with a step of its rule, and a
    solution that proves nothing though there is one make a claim undecided, with `doubts`.
    So do arrays that are missing or cannot be read. A claim whose config is not of this version is
    named and left as it is. A claim that gets another verdict is drawn again. source: a Python file
    with claims of one's own, which are judged as well; without it, theirs are left as they are.
    """
    place, speak = opened(Path(folder)), say or (lambda sentence: None)
    known = {**CLAIMS, **({} if source is None else claims_from(source))}
    for name, claim in known.items():
        record = read_record(place / "claims" / f"{name}.json", speak)
        if record is None or "error" in record or EMPTY in record:
            continue
        if words := missing(claim.needs):
            speak(f"{name} is left as it is: {words}")
            continue
        config = config_on_file(claim, record)
        if config is None:
            speak(f"{name} was run with another config: run it again; its record is left as it is")
            continue
        arrays = saved_arrays(place, name, speak)
        if arrays is None:
            lost = f"{name}.npz is missing or cannot be read: run it again"
            write_json(place / "claims" / f"{name}.json", doubted(record, [lost]))
            continue
        about = {key: record[key] for key in _ABOUT if key in record}
        doubts = misfits(place / "claims" / f"{name}.npz", record)
        doubts = doubts or list(replayed(claim, config, arrays).doubts)
        try:
            new = judged(claim, config, arrays, about)
        except Exception as error:  # arrays of other names or shapes than the check expects
            new = broken(claim, config, about, error)
        if doubts:
            new = doubted(new, doubts)
            speak(f"{name}: {doubts[0]}")
        if new["verdict"] != record["verdict"]:
            speak(f"{name}: {record['verdict']} on file, {new['verdict']} from the saved arrays")
            if "error" not in new:
                draw(place, claim, config, arrays, new)
        write_json(place / "claims" / f"{name}.json", new)
    records = gather(place, known, speak)
    for record in records:
        if record["id"] not in known:
            speak(
                f"{record['id']} is of {record[OUTSIDE]} and is left as it is: "
                f"add --from {record[OUTSIDE]} to judge it"
            )
    return records


def draw(folder: Path, claim: Claim, config: Config, result: Result, record: Record) -> None:
    """Write the claim's picture as SVG and PNG, its narrow form, and its moving picture's data.

    What was judged stands in the metadata of the pictures, not in them.
    """
    from attsvm.figures.narrow import stack
    from attsvm.figures.run import place_parts, write_figure
    from attsvm.figures.style import styled
    from attsvm.figures.ticks import plain_ticks

    words = {"title": f"{claim.id}: {claim.title}", "about": judged_words(record)}
    pictures = {kind: folder / "figures" / f"{claim.id}{kind}" for kind in PICTURES}
    with styled():
        figure = lawful_part(claim, "plot", claim.plot(config, result), "Figure")
        plain_ticks(figure)
        place_parts(figure)
        for kind in (".svg", ".png"):
            write_figure(figure, pictures[kind], **words)
        stack(figure)
        write_figure(figure, pictures[NARROW], **words)
    motion = folder / "claims" / f"{claim.id}.motion.json"
    if claim.motion is not None:
        moving = lawful_part(claim, "motion", claim.motion(config, result), "Motion")
        write_json(motion, asdict(moving), indent=None)
    else:
        motion.unlink(missing_ok=True)


def saved_arrays(folder: Path, name: str, say: Say) -> Result | None:
    """What the claim measured; None when it cannot be read, and then it is kept aside."""
    file = folder / "claims" / f"{name}.npz"
    try:
        return load_arrays(file)
    except AttsvmError:
        if not file.exists():
            say(f"{file} is missing")
        set_aside(file, say)
        return None

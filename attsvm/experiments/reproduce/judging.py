"""Claims judged and drawn from what was saved; nothing is run."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attsvm._utils.files import load_arrays, to_json, write_text
from attsvm._utils.progress import Progress
from attsvm._utils.version import __version__
from attsvm.errors import AttsvmError
from attsvm.experiments.reproduce.folder import (
    PICTURES,
    Record,
    judged_words,
    set_aside,
)
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    NothingInside,
    Result,
    config_hash,
    describe,
    lawful_part,
    verdict_of,
)

# A record of a claim that had nothing to judge has this name, and no arrays.
EMPTY = "empty"


def judged(claim: Claim, config: Config, result: Result, about: dict[str, Any]) -> Record:
    """The record of a claim, judged from its result."""
    found = lawful_part(claim, "check", claim.check(config, result), "Finding")
    return _record(claim, config, found, about)


def _record(claim: Claim, config: Config, found: Finding, about: dict[str, Any]) -> Record:
    verdict, reason = verdict_of(claim, config, found)
    return {
        "id": claim.id,
        "paper": claim.paper,
        "title": claim.title,
        "kind": claim.kind,
        "trust": claim.trust,
        "statement": claim.statement,
        "verdict": verdict,
        "numbers": [describe(test) for test in found.tests],
        "premises": found.premises,
        "judged": found.judged,
        "gap": found.gap,
        "reason": reason,
        "differs": claim.differs,
        "numbered": claim.numbered,
        "size": claim.size,
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


def draw(folder: Path, claim: Claim, config: Config, result: Result, record: Record) -> None:
    """Write the claim's picture as SVG and PNG, and its moving picture's data.

    What was judged stands in the metadata of the pictures, not in them.
    """
    from attsvm.plotting.style import plain_ticks, styled, write_figure

    words = {"title": f"{claim.id}: {claim.title}", "about": judged_words(record)}
    with styled():
        figure = lawful_part(claim, "plot", claim.plot(config, result), "Figure")
        plain_ticks(figure)
        files = [folder / "figures" / f"{claim.id}{kind}" for kind in PICTURES]
        write_figure(figure, *files, **words)
    motion = folder / "claims" / f"{claim.id}.motion.json"
    if claim.motion is not None:
        moving = lawful_part(claim, "motion", claim.motion(config, result), "Motion")
        write_text(motion, to_json(asdict(moving)))
    else:
        motion.unlink(missing_ok=True)


def saved_arrays(folder: Path, name: str, say: Progress) -> Result | None:
    """What the claim measured; None when it cannot be read, and then it is kept aside."""
    file = folder / "claims" / f"{name}.npz"
    try:
        return load_arrays(file)
    except AttsvmError:
        if not file.exists():
            say(f"{file} is missing")
        set_aside(file, say)
        return None

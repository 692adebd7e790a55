"""The race: every contestant of every work in a fresh process with one thread, row by row."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attsvm.errors import Unsupported
from benchmarks.machine import THREADS, machine_facts
from benchmarks.record import recording
from benchmarks.standings import row
from benchmarks.task import Contestant, Work

# Wall seconds a seed may take before its process is ended.
PATIENCE = 300.0
# Wall seconds after which a quick run starts nothing more and ends what runs.
QUICK = 110.0

Measured = list[dict[str, Any]]


def compete(
    works: Mapping[str, Work],
    contestants: Mapping[str, Contestant],
    *,
    quick: bool,
    only: list[str] | None,
    out: Path,
    progress: Callable[[str], None] | None,
) -> dict[str, Any]:
    """The rows of a run with the machine beside them, as `benchmarks.run` returns them."""
    chosen = _choose(works, quick=quick, only=only)
    _require(chosen, contestants, quick=quick)
    moment = datetime.now(UTC)
    began = time.perf_counter()
    head: dict[str, Any] = {
        "started": moment.isoformat(timespec="seconds"),
        "quick": quick,
        "only": only,
        "machine": machine_facts(),
    }
    rows: Measured = []
    with recording(Path(out), moment) as lines:
        lines.add("run", head)
        for name, work in chosen.items():
            ours: Measured = []
            for who, seeds in _entries(work, quick).items():
                if progress is not None:
                    progress(f"{name}: {who}, {seeds} seed{'s' * (seeds > 1)}")
                limit = PATIENCE * seeds
                if quick:
                    limit = min(limit, QUICK - (time.perf_counter() - began))
                missing = _missing(contestants[who])
                found: Measured = []
                note = f"{', '.join(missing)} not installed"
                if not missing:
                    found, note = _measure(name, who, seeds, limit, quick=quick)
                if who == "ours":
                    ours = found
                for measurement in found:
                    lines.add("measurement", measurement)
                summary = row(
                    name,
                    who,
                    about=work,
                    entry=work.entries[who],
                    measurements=found,
                    ours=ours,
                    note=note,
                    quick=quick,
                )
                lines.add("row", summary)
                rows.append(summary)
    seconds = round(time.perf_counter() - began, 1)
    return {"file": str(lines.path), **head, "seconds": seconds, "rows": rows}


def _entries(work: Work, quick: bool) -> dict[str, int]:
    """The contestants of a work with the number of their seeds, ours first."""
    counts = {who: e.quick_seeds if quick else e.seeds for who, e in work.entries.items()}
    order = sorted(counts, key=lambda who: who != "ours")
    return {who: counts[who] for who in order if counts[who] > 0}


def _choose(works: Mapping[str, Work], *, quick: bool, only: list[str] | None) -> dict[str, Work]:
    """The works that are asked for, in the order of the registry."""
    unknown = [name for name in only or [] if name not in works]
    if unknown:
        raise Unsupported(f"unknown work {unknown[0]!r}: known are {', '.join(works)}")
    chosen = {name: work for name, work in works.items() if not only or name in only}
    if quick:
        slow = [name for name, work in chosen.items() if not _entries(work, quick)]
        if only and slow:
            raise Unsupported(f"work {slow[0]!r} is too long for a quick run; leave quick out")
        chosen = {name: work for name, work in chosen.items() if name not in slow}
    return chosen


def _require(
    chosen: Mapping[str, Work], contestants: Mapping[str, Contestant], *, quick: bool
) -> None:
    """Raise Unsupported when a package that a required contestant needs is not installed."""
    entered = {who for work in chosen.values() for who in _entries(work, quick)}
    required = [contestants[who] for who in entered if not contestants[who].optional]
    missing = sorted({package for one in required for package in _missing(one)})
    if missing:
        raise Unsupported(f"the bench needs {', '.join(missing)}: pip install '.[bench]'")


def _missing(contestant: Contestant) -> list[str]:
    """The packages a contestant needs that are not installed."""
    return [package for package in contestant.needs if importlib.util.find_spec(package) is None]


def _measure(work: str, who: str, seeds: int, limit: float, *, quick: bool) -> tuple[Measured, str]:
    """The measurements of a fresh process, and a note on what is missing from them."""
    if limit <= 0:
        return [], "no time left"
    job = json.dumps({"work": work, "contestant": who, "seeds": list(range(seeds)), "quick": quick})
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", job],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=Path(__file__).resolve().parents[1],  # Python looks for modules there first
        env=os.environ | THREADS,
    )
    note = ""
    try:
        said, wrong = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        child.kill()
        said, wrong = child.communicate()
        note = f"ended after {limit:.0f} s"
    finally:
        if child.poll() is None:  # interrupted: leave no process behind
            child.kill()
            child.wait()
    found = [
        {"work": work, "contestant": who, **json.loads(line)}
        for line in said.splitlines(keepends=True)
        if line.endswith("\n")
    ]
    if not note and child.returncode != 0:
        last = wrong.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        note = f"failed: {last[0]}"
    if note and found:
        note += f", {len(found)} of {seeds} seeds"
    return found, note

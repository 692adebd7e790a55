"""The folder of a hunt: its record, and what was found as arrays, as Python and as a picture.

attsvm.json     the stamp of a RunFolder
hunt.json       the record: what was tried, covered and found; a hunt goes on from it
instance.npz    the instance, as a problem file of attsvm
instance.py     the instance as Python that shows the violation
figure.svg, .png  the instance and the way to it
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.files import parse_json, write_arrays, write_json, write_text
from attsvm._utils.run_folder import RunFolder
from attsvm._utils.version import __version__
from attsvm.errors import BadTokens
from attsvm.experiments.counterexamples.outcome import FoundInstance, Hunt
from attsvm.experiments.statements import Statement

RECORD = "hunt.json"
# What reading a damaged record raises.
_BROKEN = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
# The arrays that a problem file may hold.
_FILE = ("X", "z", "y", "v", "p0", "W0", "penalty")


@dataclass(frozen=True, eq=False)
class Folder:
    """Where a hunt is kept, what it is of, and the hunt so far."""

    place: Path
    reference: str
    digest: str
    hunt: Hunt

    @staticmethod
    def open(place: Path, statement: Statement, reference: str, seed: int) -> Folder:
        """The folder, made or gone on with. Raises BadTokens for one with something else in it."""
        digest = _digest(statement)
        record = place / RECORD
        RunFolder(place, "hunt").create()
        if not record.exists():
            return Folder(place, reference, digest, Hunt(statement.name, seed))
        saved = _read(record)
        for what, here, there in (
            ("statement", statement.name, saved["statement"]),
            ("seed", seed, saved["seed"]),
            ("text or space of the statement", digest, saved["digest"]),
            ("version of attsvm", __version__, saved["version"]),
        ):
            if here != there:
                raise BadTokens(
                    f"{place} has a hunt with another {what} ({there}, not {here}): give another "
                    "folder"
                )
        try:
            return Folder(place, reference, digest, Hunt.of_dict(saved, statement))
        except _BROKEN as error:
            raise _no_record(record, error) from error

    def save(self, hunt: Hunt) -> None:
        """Write the record in one move."""
        kept = {"version": __version__, "digest": self.digest, **hunt.to_dict()}
        write_json(self.place / RECORD, kept)

    def write(self, hunt: Hunt, statement: Statement) -> None:
        """Write the record, and what was found as arrays, as Python and as a picture."""
        from attsvm.plotting.studies import draw_hunt

        if hunt.found is not None:
            write_arrays(self.place / "instance.npz", file_arrays(hunt.found), force=True)
            text = script(statement, self.reference, hunt.found)
            write_text(self.place / "instance.py", text)
        shown: dict[str, Any] = {} if hunt.found is None else dict(hunt.found.instance.arrays)
        draw_hunt(self.place / "figure.svg", shown, hunt.rises, title=statement.title)
        draw_hunt(self.place / "figure.png", shown, hunt.rises, title=statement.title)
        self.save(hunt)


def file_arrays(found: FoundInstance) -> dict[str, Any]:
    """The arrays of the instance that a problem file may hold; without v the first are kept."""
    arrays = found.instance.arrays
    out: dict[str, Any] = {name: arrays[name] for name in _FILE if name in arrays}
    if "penalty" in out:
        out["penalty"] = np.float64(out["penalty"][0])
    if "X" in out and "v" not in out:
        out["alpha"] = np.zeros(len(out["X"]), dtype=np.int64)
    return out


def script(statement: Statement, reference: str, found: FoundInstance) -> str:
    """Python that makes the instance and shows the violation, about eight lines."""
    arrays = found.instance.arrays
    made = [f"{name} = np.array({json.dumps(array.tolist())})" for name, array in arrays.items()]
    shown = statement.lines
    if not shown:
        names = ", ".join(f"'{name}': {name}" for name in arrays)
        shown = (
            "from attsvm.experiments.counterexamples import found_statement",
            "from attsvm.experiments.statements import Instance",
            f"print(found_statement({reference!r}).violation(Instance({{{names}}})))",
        )
    return "\n".join(["import attsvm, numpy as np", *made, *shown]) + "\n"


def _digest(statement: Statement) -> str:
    """What draws the instances: the sizes, the arrays, the length of a block, and the words."""
    fields = [(f.name, f.axes, f.scale, f.values) for f in statement.space.fields]
    said = repr((statement.says, dict(statement.space.sizes), fields, statement.block))
    return sha256(said.encode()).hexdigest()[:16]


def _read(record: Path) -> dict[str, Any]:
    try:
        saved = parse_json(record.read_text(encoding="utf-8"))
        for name in ("statement", "seed", "digest", "version", "blocks", "covered", "found"):
            saved[name]
    except _BROKEN as error:
        raise _no_record(record, error) from error
    out: dict[str, Any] = saved
    return out


def _no_record(record: Path, error: Exception) -> BadTokens:
    return BadTokens(
        f"{record} is no record of a hunt ({type(error).__name__}): remove it, or give another "
        "folder"
    )

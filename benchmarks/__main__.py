"""The command: python -m benchmarks [torch] [--quick] [--only NAME] [--out FOLDER] [--json]."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attsvm.errors import AttsvmError
from benchmarks import optimizers, run, table


def main(words: Sequence[str] | None = None) -> None:
    """Parse, measure, print; bad input is one sentence and exit code 2."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description="Measure attsvm beside other solvers, graded by the certificate.",
    )
    parser.add_argument(
        "what", nargs="?", choices=["torch"], help="measure steps of torch optimizers instead"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller works")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="a work by name; may be repeated"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="folder for the rows, default: results",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    asked = parser.parse_args(words)
    if asked.what and asked.only:
        parser.error("--only names works: leave it out with torch")
    report: dict[str, Any]
    try:
        if asked.what:
            rows = optimizers.run(quick=asked.quick, progress=_tell)
            report, text = {"status": "done", "rows": rows}, optimizers.table(rows)
        else:
            report = run(quick=asked.quick, only=asked.only, out=asked.out, progress=_tell)
            text = table(report["rows"])
    except AttsvmError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    print(json.dumps(report, allow_nan=False) if asked.json else text)


def _tell(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()

"""Compares the judged numbers of a reproduction with the ones that are kept.

`python -m tests.baseline.compare FOLDER NAME` prints every number that differs from NAME.json,
beside this file, and ends with 1 if one does; `FOLDER --save NAME` writes that file. Two numbers
agree within TOLERANCE, relative to the larger one.
"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOLERANCE = 1e-6
Judged = dict[str, dict[str, Any]]


def judged(folder: Path) -> Judged:
    """The verdict and the numbers of each claim of a reproduction, by name."""
    records = json.loads((folder / "results.json").read_text("utf-8"))
    records = records["claims"] if isinstance(records, dict) else records
    return {
        record["id"]: {
            "verdict": record["verdict"],
            "numbers": {
                test["what"]: test["seen"] for test in record.get("numbers", record.get("checks"))
            },
        }
        for record in records
    }


def differences(kept: Judged, seen: Judged) -> Iterator[str]:
    """One line for each claim, verdict or number that is not the same."""
    for name in sorted(kept.keys() | seen.keys()):
        if name not in kept or name not in seen:
            yield f"{name}: only {'kept' if name in kept else 'seen'}"
            continue
        old, new = kept[name], seen[name]
        if old["verdict"] != new["verdict"]:
            yield f"{name}: {old['verdict']} -> {new['verdict']}"
        for what in sorted(old["numbers"].keys() | new["numbers"].keys()):
            pair = [side["numbers"].get(what) for side in (old, new)]
            if None in pair or not _same(*map(float, pair)):
                yield f"{name}: {what}: {pair[0]} -> {pair[1]}"


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=TOLERANCE)


if __name__ == "__main__":
    found = judged(Path(sys.argv[1]))
    if sys.argv[2:3] == ["--save"]:
        text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True)
        (HERE / f"{sys.argv[3]}.json").write_text(text + "\n", encoding="utf-8")
    else:
        lines = list(differences(json.loads((HERE / f"{sys.argv[2]}.json").read_text()), found))
        print("\n".join([*lines, f"{len(lines)} differences in {len(found)} claims"]))
        sys.exit(bool(lines))

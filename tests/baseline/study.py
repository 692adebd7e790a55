"""Runs studies and compares their judged numbers with the ones that are kept.

`python -m tests.baseline.study ID… [--full] [--jobs N] [--out DIR]` prints every number that
differs from quick.json, or full.json, beside this file, and ends with 1 if one does.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from attsvm.experiments.executors import ExecutorConfig
from attsvm.experiments.runner import run_studies
from attsvm.experiments.studies import chosen_studies
from tests.baseline.compare import HERE, differences, judged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    out = Path(given.out or tempfile.mkdtemp())
    start = time.perf_counter()
    studies = chosen_studies(given.ids)
    records = run_studies(
        studies, out, quick=not given.full, engine="here" if given.jobs == 1 else "local",
        asked=ExecutorConfig(jobs=given.jobs), say=print,
    )  # fmt: skip
    kept = json.loads((HERE / ("full.json" if given.full else "quick.json")).read_text())
    ids = {study.id for study in studies}
    seen = {name: found for name, found in judged(out).items() if name in ids}
    lines = list(differences({name: kept[name] for name in kept.keys() & ids}, seen))
    print("\n".join(lines))
    for record in records:
        print(f"{record['id']}: {record['verdict']}, {record['judged']} judged, "
              f"{record['rows']} rows, {record['seconds']:.1f} s")  # fmt: skip
    print(f"{len(lines)} differences in {len(ids)} studies, {time.perf_counter() - start:.0f} s")
    print(f"the folder is {out}")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())

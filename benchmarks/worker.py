"""The measuring process: takes one job as JSON, prints one JSON line a seed."""

from __future__ import annotations

import json
import os
import sys

from benchmarks import CONTESTANTS, WORKS
from benchmarks.machine import THREADS
from benchmarks.measure import measured


def main(job: str) -> None:
    """Measure a job, an object with `work`, `contestant`, `seeds` (a list) and `quick`."""
    # What a library prints goes to standard error: standard output carries the measurements only.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as channel:
        os.dup2(2, 1)
        asked = json.loads(job)
        work, contestant = WORKS[asked["work"]], CONTESTANTS[asked["contestant"]]
        first = work.entries[asked["contestant"]].first
        for found in measured(
            work, contestant, seeds=asked["seeds"], first=first, quick=asked["quick"]
        ):
            threads = {name: os.environ.get(name) for name in THREADS}
            channel.write(json.dumps(found | {"threads": threads}) + "\n")
            channel.flush()


if __name__ == "__main__":
    main(sys.argv[1])

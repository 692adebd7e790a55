"""The training runs of claims on real data, done one by one before the claims are measured.

Each run is one file under DIR/runs, written beside and renamed, so a killed reproduction goes on
from the runs that were finished. Runs that several claims ask for are done once. Where the plan of
a run waits for the results of others, it is done in a later round.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attsvm._utils.files import disk_is_full, load_arrays
from attsvm._utils.progress import Progress
from attsvm.experiments.code_digest import code_digest
from attsvm.experiments.reproduce.processes import in_processes
from attsvm.experiments.studies.claim import Claim, Config
from attsvm.experiments.studies.shared.stored import (
    SECONDS,
    Store,
    TrainingRun,
    done,
    on_file,
    storing,
)


def store_of(folder: Path) -> Store:
    """The store of a folder of results; it is made when the first run is written."""
    return Store(folder / "runs", code_digest)


def seconds_of(store: Store) -> float:
    """The seconds that the runs took which were read from the store."""
    return sum(float(load_arrays(file).get(SECONDS, 0.0)) for file in store.used)


def do_runs(
    asked: Sequence[tuple[Claim, Config]],
    folder: Path,
    *,
    jobs: int,
    again: bool,
    watch: Progress,
    say: Progress,
) -> None:
    """Do the runs of these claims that are not on file; a run that raises is left to its claim.

    again: do even those that are on file.
    """
    store = store_of(folder)
    store.folder.mkdir(exist_ok=True)
    tried: set[str] = set()
    with storing(store):
        while True:
            runs = _named(asked, store)
            lacking = {
                name: run
                for name, run in runs.items()
                if run.ready and name not in tried and (again or on_file(run) is None)
            }
            if not lacking:
                return
            tried |= set(lacking)
            count = _Count(len(runs), sum(on_file(run) is not None for run in runs.values()))
            _round(lacking, str(folder), jobs=jobs, tell=_teller(count, asked, watch, say))


class _Count:
    """How many runs there are, and how many are done."""

    def __init__(self, runs: int, done: int) -> None:
        self.runs = runs
        self.done = done


def _named(asked: Sequence[tuple[Claim, Config]], store: Store) -> dict[str, TrainingRun]:
    """The runs of all claims by the names of their files, each once; those that wait by text."""
    found: dict[str, TrainingRun] = {}
    for claim, config in asked:
        for run in claim.runs(config) if claim.runs else ():
            found[store.file(run).stem if run.ready else run.text] = run
    return found


def _teller(
    count: _Count, asked: Sequence[tuple[Claim, Config]], watch: Progress, say: Progress
) -> Progress:
    """What is told of a run: the claims that wait for it show how many are done."""

    def told(name: str, state: str) -> None:
        if state == "running":
            return
        count.done += 1
        if state:
            say(f"training run {name} broke: {state}")
        for claim, _ in asked:
            if claim.runs is not None:
                watch(claim.id, f"runs {count.done} of {count.runs}")

    return told


def _round(runs: dict[str, TrainingRun], folder: str, *, jobs: int, tell: Progress) -> None:
    """Do these runs, in processes where there are several."""
    if min(jobs, len(runs)) > 1:
        in_processes(do_one, list(runs), given=(runs, folder), jobs=min(jobs, len(runs)), tell=tell)
        return
    for name in runs:
        tell(name, do_one(name, runs, folder))


def do_one(name: str, runs: dict[str, TrainingRun], folder: str) -> str:
    """Do one run and keep what it made; what it raised in words, empty when all went well."""
    try:
        with storing(store_of(Path(folder))) as store:
            store.file(runs[name]).unlink(missing_ok=True)
            done(runs[name])
    except Exception as error:  # whatever one run does, the others go on
        if disk_is_full(error):
            raise
        return f"{type(error).__name__}: {error}"
    return ""

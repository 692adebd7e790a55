"""run_sweep(): every task of a spec that is not on file yet, on an engine, and then the table."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attsvm._utils.files import beside, write_json, writing_to
from attsvm._utils.progress import Progress
from attsvm._utils.run_folder import RunFolder
from attsvm.errors import BadTokens
from attsvm.experiments.executors import Engine, ExecutorConfig, Failure, engine_of, run_tasks
from attsvm.experiments.sweep.folder import (
    FAILURES,
    KIND,
    SHARDS,
    TABLE,
    create_folder,
    kept_spec,
    on_file,
    write_shard,
)
from attsvm.experiments.sweep.spec import Spec
from attsvm.experiments.sweep.table import broken, write_table
from attsvm.experiments.sweep.task import MeasuredTask, SweepTask, drawn_at, measure_task

# So often are results that turn out to be unreadable made again.
_ROUNDS = 3


@dataclass(frozen=True)
class SweepState:
    """How far a sweep is, in instances: of all, how many are done, were there before, failed."""

    total: int
    done: int = 0
    before: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Swept:
    """What came of a sweep: its folder and table, how far it is, and the tasks that failed."""

    folder: Path
    table: Path
    state: SweepState
    failures: tuple[Failure[SweepTask], ...]
    seconds: float


def run_sweep(
    spec: Spec,
    out: str | Path,
    *,
    engine: str | Engine | Executor = "local",
    asked: ExecutorConfig | None = None,
    retries: int = 2,
    watch: Progress | None = None,
    say: Progress | None = None,
) -> Swept:
    """What came of the sweep: results on file are kept, the others made, the table written.

    engine: a name (with what is asked of it), or any executor. watch(state) is told of every
    change, say(sentence) of what a reader should know. A sweep that is killed goes on where it was
    when it is run again; its table is the same one.
    """
    folder, start = Path(out), time.perf_counter()
    speak = say or (lambda sentence: None)
    chosen = engine_of(engine, replace(asked or ExecutorConfig(), folder=folder / "jobs"))
    with RunFolder(folder, KIND).locked(), writing_to(folder):
        create_folder(folder, spec)
        drawn_at(
            spec.work, next(spec.points()), (spec.first,)
        )  # what is wrong with all is said now
        progress = _Progress(spec, watch)
        for _ in range(_ROUNDS):
            failures = _remaining(spec, folder, chosen, progress, retries, speak)
            bad = broken(folder, spec)
            if not bad:
                break
            speak(f"{len(bad)} results cannot be read and are made again")
            for file in bad:
                file.unlink(missing_ok=True)
        write_table(folder, spec, folder / TABLE)
        _note(folder, failures)
    seconds = time.perf_counter() - start
    return Swept(folder, folder / TABLE, progress.state, tuple(failures), seconds)


class _Progress:
    """The state of a sweep, told at every change."""

    def __init__(self, spec: Spec, watch: Progress | None) -> None:
        self.state, self.watch = SweepState(spec.instances), watch

    def move(self, **by: int) -> None:
        """Add to the counts of these names."""
        now = {name: getattr(self.state, name) + count for name, count in by.items()}
        self.state = replace(self.state, **now)
        if self.watch is not None:
            self.watch(self.state)


def _remaining(
    spec: Spec, folder: Path, engine: Engine, progress: _Progress, retries: int, say: Progress
) -> list[Failure[SweepTask]]:
    """Do what is not on file; the tasks that failed."""
    there = on_file(folder)
    names = {task.name for task in spec.tasks()}
    if there - names and names - there:
        say(
            f"{len(there - names)} results on file are of other code, other library versions or "
            "other points: they are left as they are"
        )
    if names - there:
        (folder / TABLE).unlink(missing_ok=True)  # of a sweep that had less to do
    kept = sum(len(task.seeds) for task in spec.tasks() if task.name in there)
    progress.state = SweepState(spec.instances)
    progress.move(done=kept, before=kept)

    def done(task: SweepTask, measured: MeasuredTask) -> None:
        write_shard(folder, task, measured)
        progress.move(done=len(task.seeds))

    def gave_up(failure: Failure[SweepTask]) -> None:
        progress.move(failed=len(failure.task.seeds))

    left = (task for task in spec.tasks() if task.name not in there)
    return run_tasks(
        measure_task, left, engine, done=done, gave_up=gave_up, retries=retries
    )  # fmt: skip


def _note(folder: Path, failures: list[Failure[SweepTask]]) -> None:
    """Keep the failures beside the table, or remove the note of earlier ones."""
    if not failures:
        (folder / FAILURES).unlink(missing_ok=True)
        return
    rows: list[dict[str, Any]] = [
        {"point": f.task.point, "seeds": list(f.task.seeds), "error": f.error, "tries": f.attempts}
        for f in failures
    ]
    write_json(folder / FAILURES, rows)


def take_shards(out: str | Path, sources: list[Path]) -> int:
    """How many results were copied from the folders of other sweeps that `out` does not have."""
    folder = Path(out)
    spec, count = kept_spec(folder), 0
    for source in sources:
        if not (source / SHARDS).is_dir():
            raise BadTokens(f"{source} is no folder of a sweep: it has no {SHARDS}")
    with RunFolder(folder, KIND).locked(), writing_to(folder):
        create_folder(folder, spec)
        there = on_file(folder)
        for source in sources:
            for name in sorted(on_file(source) - there):
                there.add(name)
                wanted = source / SHARDS / f"{name}.npz"
                with beside(folder / SHARDS / wanted.name) as part:
                    shutil.copyfile(wanted, part)
                count += 1
    return count

"""run_studies(): measure studies in chunks of rows on any executor, judge and draw them.

A folder holds

    attsvm.json           the stamp of a RunFolder
    parts/NAME.npz        the rows of one chunk; the name tells all that determines them
    tables/ID.csv         the rows of a study, in the order of its points and seeds
    figures/ID.svg, .png  its figure
    studies/ID.json       its record: verdict, checks, how it was run; written last
    runs/NAME.npz         training runs on real data that several studies share
    results.json          every record
    report.html           the page (`attsvm.experiments.report`)

Files are written beside and renamed: a run that is killed leaves whole files, and the next one
goes on from there. A table does not depend on the executor or on where a run was stopped.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.compiled import timed
from attsvm._utils.files import (
    beside,
    disk_is_full,
    load_arrays,
    parse_json,
    write_arrays,
    write_json,
    writing_to,
)
from attsvm._utils.objects import is_outside
from attsvm._utils.parallel import one_thread
from attsvm._utils.progress import Progress
from attsvm._utils.run_folder import RunFolder
from attsvm._utils.version import __version__
from attsvm.errors import AttsvmError, BadTokens, ConvergenceWarning
from attsvm.experiments.executors import Engine, ExecutorConfig, Failure, engine_of, map_tasks
from attsvm.experiments.group import Group
from attsvm.experiments.study import (
    RUN,
    BadStudy,
    Study,
    family_of,
    judge,
    measure_of,
    measures_of,
    parameters_of,
    verdict_of,
)
from attsvm.experiments.table import (
    Columns,
    as_frame,
    check_columns,
    joined,
    kinds_of,
    read_csv,
    write_table,
)

KIND, LAYOUT = "reproduction", 2
FOLDERS = ("parts", "tables", "figures", "studies")
RESULTS, PAGE = "results.json", "report.html"
PICTURES = (".svg", ".png")
# Half-written files older than this, in seconds, are removed.
STALE = 3600.0
# The name of a chunk and its seconds stand in its file under these names.
_NAME, _SECONDS = "chunk name", "chunk seconds"
# Packages whose code determines what a measure finds.
_CODE = (
    "_utils", "problem", "norms", "certificate", "solvers", "training", "theory", "next_token",
    "datasets", "torch", "experiments/group.py", "experiments/families.py",
    "experiments/measures.py", "experiments/studies/shared",
)  # fmt: skip

Record = dict[str, Any]


# ---------------------------------------------------------------- chunks


@dataclass(frozen=True)
class Chunk:
    """Some seeds at one point of a study: what is measured in one task and kept in one file.

    family, measures: functions by reference, which any process resolves. name: that of the file.
    """

    study: str
    family: str
    measures: tuple[str, ...]
    point: Mapping[str, Any]
    seeds: tuple[int, ...]
    name: str
    runs: str = ""


def reference_of(function: Any) -> str:
    """A text by which any process finds a function: MODULE:NAME, or FILE.py:NAME."""
    if function is None or isinstance(function, str):
        return function or ""
    module = sys.modules[function.__module__]
    if "<" in function.__qualname__ or function.__module__ == "__main__":
        raise BadStudy(
            f"{function.__qualname__} cannot be found by other processes: define it in a module, "
            "at its top level"
        )
    outside = function.__module__.startswith("attsvm_outside_")
    where = Path(str(module.__file__)).resolve() if outside else function.__module__
    return f"{where}:{function.__qualname__}"


def resolve(text: str) -> Any:
    """The function that a reference names; a name of a registry stays as it is."""
    module, colon, name = text.rpartition(":")
    if not colon or is_outside(text):
        return text or None
    return getattr(import_module(module), name)


def chunks_of(study: Study, runs: str = "") -> Iterator[Chunk]:
    """The chunks of a study, in the order of its table."""
    family, measures = reference_of(study.family), tuple(map(reference_of, study.measures))
    base = {"family": _short(family), "measures": [_short(m) for m in measures], **_code(study)}
    for point in study.points():
        for seeds in study.blocks():
            whole = json.dumps({**base, "point": point, "seeds": seeds}, sort_keys=True)
            name = hashlib.sha256(whole.encode()).hexdigest()[:24]
            yield Chunk(study.id, family, measures, point, seeds, name, runs)


def _short(text: str) -> str:
    """A reference without the folder of its file: a file may move."""
    return Path(text).name if is_outside(text) else text


def _code(study: Study) -> dict[str, Any]:
    functions = [family_of(study.family)] if study.family else []
    functions += measures_of(study)
    modules = sorted({function.__module__ for function in functions})
    names = ["numpy", "scipy", "numba", *(name for name in ("torch",) if name in study.needs)]
    return {"code": [*map(_hash_of, modules), package_hash()], "versions": versions_of(*names)}


def versions_of(*names: str) -> dict[str, str]:
    """The versions of packages, of those that are installed."""
    there = [name for name in names if find_spec(name)]
    return {name: version(name) for name in there}


@cache
def _hash_of(name: str) -> str:
    """A hash of the source of a module; empty where it has none."""
    module: Any = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if not file:
        return ""
    return hashlib.sha256(module.__loader__.get_data(file)).hexdigest()[:16]


@cache
def package_hash() -> str:
    """A hash of the package's code that a measure may use."""
    whole = hashlib.sha256()
    for part in _CODE:
        for source in _sources(files("attsvm").joinpath(part)):
            whole.update(source)
    return whole.hexdigest()[:16]


def _sources(place: Traversable) -> Iterator[bytes]:
    """The Python and TOML files of a folder, which may be inside a zip, in order of their names."""
    if not place.is_dir():
        yield place.read_bytes()
        return
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith((".py", ".toml")) or (entry.is_dir() and "." not in entry.name):
            yield from _sources(entry)


def measure_chunk(chunk: Chunk) -> tuple[Columns, float]:
    """The columns that the study's measures find on a chunk, and the seconds without compiling."""
    with timed() as took, one_thread(), keeping(chunk.runs), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a certificate says how far it got
        columns = _measured(chunk)
    return columns, took.run


def _measured(chunk: Chunk) -> Columns:
    point = dict(chunk.point)
    drawn = None
    if chunk.family:
        family = family_of(resolve(chunk.family))
        drawn = family(list(chunk.seeds), **_part(point, parameters_of(family)))
    group = Group(chunk.seeds, drawn, _part(point, RUN))
    out: Columns = {}
    for text in chunk.measures:
        measure = measure_of(resolve(text))
        found = measure(group, **_part(point, parameters_of(measure)))
        who = f"the measure {_short(text)} of {chunk.study}"
        columns = check_columns(found, who, len(group))
        if taken := sorted(set(out) & set(columns)):
            raise BadStudy(f"{chunk.study}: two parts give the column {taken[0]}: rename one")
        out |= columns
    return out


def _part(point: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: point[name] for name in names if name in point}


# ---------------------------------------------------------------- training runs that studies share

_RUNS: ContextVar[Path | None] = ContextVar("runs", default=None)


@contextmanager
def keeping(folder: str) -> Iterator[None]:
    """A context in which runs are read from this folder and written to it; "" keeps nothing."""
    token = _RUNS.set(Path(folder) if folder else None)
    try:
        yield
    finally:
        _RUNS.reset(token)


def kept(work: Callable[[dict[str, Any]], Columns], plan: dict[str, Any]) -> Columns:
    """The arrays of work(plan): read where they are on file, else made and kept.

    plan: what JSON can hold; it, the code of the package, and the versions of NumPy and torch name
    the file.
    """
    folder = _RUNS.get()
    if folder is None:
        return work(plan)
    code = [package_hash(), work.__module__, work.__qualname__, versions_of("numpy", "torch")]
    text = json.dumps([*code, plan], sort_keys=True)
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.npz"
    if file.exists():
        try:
            return load_arrays(file)
        except AttsvmError:  # broken by something else than a kill: it is made again
            file.unlink(missing_ok=True)
    made = work(plan)
    folder.mkdir(exist_ok=True)
    write_arrays(file, made, force=True)
    return made


# ---------------------------------------------------------------- the folder


def results_folder(path: str | Path) -> RunFolder:
    """The folder of a reproduction or a sweep."""
    return RunFolder(Path(path), KIND, LAYOUT)


def _part_file(folder: Path, chunk: Chunk) -> Path:
    return folder / "parts" / f"{chunk.name}.npz"


def _read_part(folder: Path, chunk: Chunk) -> tuple[Columns, float] | None:
    """The rows of a chunk and its seconds; None where they are not there or cannot be read."""
    file = _part_file(folder, chunk)
    if not file.exists():
        return None
    try:
        found = load_arrays(file)
    except BadTokens:
        return None
    if str(found.pop(_NAME, "")) != chunk.name:
        return None
    return found, float(found.pop(_SECONDS))


def read_record(folder: Path, name: str) -> Record | None:
    """The record of a study; None where there is none that can be read."""
    try:
        record = parse_json((folder / "studies" / f"{name}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(record, dict) and {"id", "paper", "title", "verdict", "plan"} <= set(record)
    return record if whole else None


def read_table(folder: Path, record: Record) -> Columns:
    """The rows of a study on file; raise BadTokens where they cannot be read."""
    return read_csv(folder / "tables" / f"{record['id']}.csv", record["columns"])


def gather(folder: Path, order: Iterable[str] = ()) -> list[Record]:
    """The records on file, these ids first; results.json is written from them."""
    there = sorted(file.stem for file in (folder / "studies").glob("*.json"))
    first = [name for name in order if name in there]
    found = [read_record(folder, n) for n in [*first, *(n for n in there if n not in first)]]
    records = [record for record in found if record is not None]
    with writing_to(folder):
        write_json(folder / RESULTS, records)
    return records


# ---------------------------------------------------------------- running


def run_studies(
    studies: Sequence[Study],
    out: str | Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    first: int | None = None,
    engine: str | Engine | Executor = "here",
    asked: ExecutorConfig | None = None,
    retries: int = 2,
    again: bool = False,
    source: str = "",
    watch: Progress | None = None,
    say: Progress | None = None,
) -> list[Record]:
    """Run, judge and draw studies; return their records in the same order.

    Parameters
    ----------
    studies : sequence of Study
    out : path
        Folder of the results. Finished studies and chunks in it are kept.
    quick : bool, default: False
        Run the small size of each study.
    seeds, first : int, optional
        Instances per point, and the first seed, in place of the study's own.
    engine : str, Engine or concurrent.futures.Executor, default: "here"
        Where chunks are measured: "here", "local", "dask", "slurm"; `asked` configures it.
    retries : int, default: 2
        How often a chunk that fails is tried again.
    again : bool, default: False
        Run even what is finished.
    source : str
        The file that the studies were read from, noted in their records.
    watch, say : callable, optional
        watch(id, state) is called at every change, say(sentence) for what a reader should know.
    """
    from attsvm.experiments.studies import studies as known_studies

    folder = Path(out)
    speak = say or (lambda sentence: None)
    chosen = engine_of(engine, replace(asked or ExecutorConfig(), folder=folder / "jobs"))
    whole = {study.id: study for study in studies}
    plans = [study.at(quick=quick, seeds=seeds, first=first) for study in studies]
    with results_folder(folder).locked(), writing_to(folder):
        given = {"studies": [*whole], "source": source, "quick": quick, "seeds": seeds,
                 "first": first}  # fmt: skip
        results_folder(folder).create(*FOLDERS, stale=STALE, asked=given)
        run = _Run(folder, whole, watch or (lambda name, state: None), speak, quick, source)
        for plan in plans:
            run.begin(plan, again)
        with closing(map_tasks(measure_chunk, run.left(), chosen, retries=retries)) as results:
            for chunk, measured in results:
                run.end(chunk, measured)
        records = {record["id"]: record for record in gather(folder, known_studies())}
    return [records[plan.id] for plan in plans if plan.id in records]


class _Run:
    """What is left to do of each study, and what is made of it when its last chunk ends."""

    def __init__(
        self, folder: Path, whole: dict[str, Study], watch: Progress, say: Progress, quick: bool,
        source: str,
    ) -> None:  # fmt: skip
        self.folder, self.whole, self.watch, self.say = folder, whole, watch, say
        self.quick, self.source = quick, source
        self.plans: dict[str, Study] = {}
        self.chunks: dict[str, list[Chunk]] = {}
        self.missing: dict[str, set[str]] = {}
        self.failed: dict[str, str] = {}

    def begin(self, plan: Study, again: bool) -> None:
        """Note what a study needs; a study that is finished is left as it is."""
        self.plans[plan.id] = plan
        chunks = list(chunks_of(plan, str(self.folder / "runs")))
        record = None if again else read_record(self.folder, plan.id)
        if record is not None and self._is_finished(plan, chunks, record):
            self.watch(plan.id, "on file")
            return
        (self.folder / "studies" / f"{plan.id}.json").unlink(missing_ok=True)
        self.chunks[plan.id] = chunks
        there = {c.name for c in chunks if not again and _read_part(self.folder, c) is not None}
        self.missing[plan.id] = {chunk.name for chunk in chunks} - there
        self.watch(plan.id, "waiting")
        if not self.missing[plan.id]:
            self._finish(plan)

    def _is_finished(self, plan: Study, chunks: list[Chunk], record: Record) -> bool:
        files = [self.folder / "tables" / f"{plan.id}.csv"]
        if record.get("figure"):
            files += [self.folder / "figures" / f"{plan.id}{kind}" for kind in PICTURES]
        same = record["plan"] == _plan_name(plan, chunks) and "error" not in record
        return same and all(file.exists() for file in files)

    def left(self) -> Iterator[Chunk]:
        """The chunks that are not on file; first those of the first seeds, at every point.

        What chunks of one point share (`kept`) is so made once, and not by several processes.
        """
        for name, chunks in self.chunks.items():
            for chunk in sorted(chunks, key=lambda chunk: chunk.seeds[0]):
                if chunk.name in self.missing[name]:
                    self.watch(name, "running")
                    yield chunk

    def end(self, chunk: Chunk, measured: tuple[Columns, float] | Failure[Chunk]) -> None:
        """Keep the rows of a chunk, or its error; finish a study with its last chunk."""
        if isinstance(measured, Failure):
            if isinstance(measured.cause, BadStudy) or disk_is_full(measured.cause):
                raise measured.cause
            self.failed.setdefault(chunk.study, measured.error)
        else:
            columns, seconds = measured
            about = {_NAME: np.str_(chunk.name), _SECONDS: np.float64(seconds)}
            write_arrays(_part_file(self.folder, chunk), {**about, **columns}, force=True)
        missing, total = self.missing[chunk.study], len(self.chunks[chunk.study])
        missing.discard(chunk.name)
        if missing:
            self.watch(chunk.study, f"{total - len(missing)} of {total}")
        else:
            self._finish(self.plans[chunk.study])

    def _finish(self, plan: Study) -> None:
        """Write the table of a study, judge it, draw it, and write its record."""
        chunks = self.chunks[plan.id]
        record = self._describe(plan, chunks)
        if plan.id in self.failed:
            self._broken(record, self.failed[plan.id])
        else:
            try:
                columns, seconds = self._rows(plan, chunks)
                write_table(self.folder / "tables" / f"{plan.id}.csv", columns)
                record |= {"rows": len(next(iter(columns.values()), ())), "seconds": seconds}
                record["columns"] = kinds_of(columns)
                record |= judged(self.whole[plan.id], plan, columns)
                record["figure"] = draw(self.folder, plan, columns)
            except Exception as error:  # whatever one study does, the others go on
                if disk_is_full(error) or isinstance(error, BadStudy):
                    raise
                self._broken(record, f"{type(error).__name__}: {error}")
        write_json(self.folder / "studies" / f"{plan.id}.json", record)
        self.watch(plan.id, "broken" if "error" in record else str(record["verdict"]))

    def _broken(self, record: Record, error: str) -> None:
        """A study that could not be run or judged is undecided, with its error."""
        words = " ".join(error.split())
        record |= {"verdict": "undecided", "checks": [], "premises": "", "judged": 0, "gap": None,
                   "reason": f"it could not be run or judged: {words}", "error": words,
                   "figure": False}  # fmt: skip
        for kind in PICTURES:
            (self.folder / "figures" / f"{record['id']}{kind}").unlink(missing_ok=True)
        self.say(f"{record['id']} could not be run or judged: {words}")

    def _rows(self, plan: Study, chunks: list[Chunk]) -> tuple[Columns, float]:
        """The table of a study, from its parts."""
        parts, seconds = [], 0.0
        for chunk in chunks:
            found = _read_part(self.folder, chunk)
            if found is None:
                raise BadTokens(f"{_part_file(self.folder, chunk)} cannot be read: run it again")
            parts.append(with_point(plan, chunk, found[0]))
            seconds += found[1]
        return joined(parts), seconds

    def _describe(self, plan: Study, chunks: list[Chunk]) -> Record:
        """What a record says of the study and of how it was run."""
        names = ("id", "paper", "title", "statement", "kind", "source", "theorem", "reference",
                 "size", "differs", "grid", "run", "seeds", "first", "real")  # fmt: skip
        return {
            **{name: getattr(plan, name) for name in names},
            "thresholds": dict(plan.thresholds),
            "quick": self.quick,
            "from": self.source,
            "plan": _plan_name(plan, chunks),
            "version": __version__,
            "seconds": 0.0,
            "rows": 0,
            "columns": {},
        }


def with_point(plan: Study, chunk: Chunk, found: Columns) -> Columns:
    """The rows of a chunk after the columns of its point and its seeds."""
    count = len(next(iter(found.values()), ()))
    if taken := sorted(set(plan.swept) & set(found)):
        raise BadStudy(f"{plan.id}: {taken[0]} is swept, and the measure gives it too: rename one")
    point = {name: np.full(count, chunk.point[name]) for name in plan.swept}
    seeds = {"seed": np.array(chunk.seeds[:count])}
    return {**point, **(seeds if "seed" not in found else {}), **found}


def _plan_name(plan: Study, chunks: Sequence[Chunk]) -> str:
    """Sixteen hex digits that name all that determines a record."""
    whole = hashlib.sha256(json.dumps(dict(plan.thresholds), sort_keys=True).encode())
    whole.update(_hash_of(getattr(plan.checks, "__module__", "")).encode())
    for chunk in chunks:
        whole.update(chunk.name.encode())
    return whole.hexdigest()[:16]


# ---------------------------------------------------------------- judging and drawing


def judged(whole: Study, plan: Study, columns: Columns) -> Record:
    """The part of a record that follows from the table: verdict, checks, premises, gap."""
    found = judge(plan, as_frame(columns))
    verdict, reason = verdict_of(whole, plan, found)
    return {
        "verdict": verdict,
        "checks": [
            {**asdict(c), "seen": c.seen if np.isfinite(c.seen) else str(c.seen)}
            for c in found.checks
        ],
        "premises": found.premises.text,
        "judged": found.premises.judged,
        "gap": found.premises.gap,
        "reason": reason,
    }


def draw(folder: Path, plan: Study, columns: Columns) -> bool:
    """Draw a study from its table into the folder; False where it has no figure or no rows."""
    rows = len(next(iter(columns.values()), ()))
    if plan.figure is None or not rows:
        return False
    from attsvm.experiments.figures import figure_of
    from attsvm.plotting.style import styled

    with styled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of medians over NaN alone
        figure = figure_of(plan, as_frame(columns))
        for kind in PICTURES:
            with beside(folder / "figures" / f"{plan.id}{kind}") as target:
                more: Any = {"metadata": {"Date": None}} if kind == ".svg" else {}
                figure.savefig(target, format=kind[1:], **more)
    return True

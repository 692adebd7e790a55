"""list, show, reproduce and report: the studies, what was found of them, and how they are run."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attsvm._utils.files import to_json
from attsvm._utils.objects import is_outside
from attsvm._utils.progress import bar
from attsvm.cli.options import FAILED, command, read_pairs
from attsvm.cli.output import emit, many, rows, say, stop
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from rich.table import Table

    from attsvm.experiments.study import Study

# The studies and what draws them are loaded by the commands that need them: the others start fast.

Record = dict[str, Any]
HERE = Path("attsvm-report")


@command("--out attsvm-report")
def list_command(names: list[str] | None = None, out: Path = HERE, json_: bool = False) -> None:
    """The studies: id, kind, title, and the last verdict where there is one.

    Those marked (--real) are on real data: `attsvm reproduce --real` runs them.

    Arguments
    ---------
    names : STUDY
        Ids, paper letters, or FILE.py.
    """
    from attsvm.experiments.report import kind_words

    chosen, _ = read_studies(names or [], real=None)
    last = _last_records(out, [study.id for study in chosen])
    stated = [_about(study, last.get(study.id)) for study in chosen]
    body = []
    for about in stated:
        title = f"{about['title']} (--real)" if about["real"] else about["title"]
        shown = [about["verdict"] or "not run"] if last else []
        body.append((about["id"], kind_words(about), about["source"], *shown, title))
    heads = ("study", "kind", "source", *(["verdict"] if last else []), "title")
    emit({"status": "done", "studies": stated}, json_, rows(heads, body))


@command("A.single-input-local")
def show_command(name: str, out: Path = HERE, json_: bool = False) -> None:
    """One study: its statement, and the numbers of its last run or how it would be run.

    Arguments
    ---------
    name : STUDY
        Id of a study, or FILE.py:NAME.
    """
    from attsvm.experiments.report import KINDS, SOURCES

    (found, *_), source = read_studies([name], real=None)
    record = _last_records(out, [found.id]).get(found.id)
    names = ("grid", "run", "seeds", "first", "thresholds", "quick")
    sizes = {"family": _family(found), **{name: getattr(found, name) for name in names}}
    quiet = {"In the paper": found.theorem, "Size": found.size,
             "Differs from what is published": found.differs}  # fmt: skip
    parts: list[Any] = [f"{found.id}  {found.title}", found.statement, "", KINDS[found.kind]]
    parts += [SOURCES[found.source], *(f"{word}: {said}" for word, said in quiet.items() if said)]
    if record is None:
        parts += ["", "Not run yet. It is run with:"]
        parts += [f"  {key} = {to_json(value)}" for key, value in sizes.items() if value]
        parts += [f"Run it: attsvm reproduce {source or found.id}"]
    else:
        size = " (quick)" if record.get("quick") else ""
        parts += ["", f"Verdict: {_verdict(record)}{size}", _numbers(record)]
        ends = (("Premises", record.get("premises")), ("Reason", record.get("reason")))
        parts += [f"{word}: {value}" for word, value in ends if value]
        parts += [f"Rows: {out / 'tables' / f'{found.id}.csv'}"]
    about = {"status": "done", **_about(found, record)}
    emit(about | sizes | {"record": record}, json_, *parts)


@command("attsvm-report")
def report_command(folder: Path = HERE, json_: bool = False) -> None:
    """Draw the page again from saved results.

    Arguments
    ---------
    folder : DIR
        Folder of the results.
    """
    from attsvm.experiments.report import write_report
    from attsvm.experiments.runner import gather, results_folder
    from attsvm.experiments.studies import studies

    results_folder(folder).open()
    _finish(folder, gather(folder, studies()), write_report(folder), json_)


@command("A --quick --jobs 2")
def reproduce_command(
    names: list[str] | None = None,
    real: bool = False,
    quick: bool = False,
    out: Path = HERE,
    jobs: int = 0,
    again: bool = False,
    seeds: int | None = None,
    first: int | None = None,
    engine: str = "local",
    address: str | None = None,
    option: list[str] | None = None,
    retries: int = 2,
    audit: bool = False,
    share: float | None = None,
    seed: int | None = None,
    json_: bool = False,
) -> None:
    """Run the studies, judge and draw them, and write one page; or audit a finished folder.

    What is finished, by this code and with these sizes, is not run again; a run that was killed
    goes on. --seeds and --first draw other instances than the studies' own; published ones stay.
    --real runs the studies on real data, which are else run by id alone: they need torch and data
    sets, and without them are left out with a sentence. --audit draws a share of the rows on file,
    measures them again, compares every column (within 1e-6, relative) and changes nothing; rows
    that are missing, invented or changed are named. Exit code 0: no study fails, or all rows agree
    (undecided and not reproduced at this size are no failures); 5: a study fails, could not be run,
    or has a row that does not agree; 2: bad input or no space left.

    Arguments
    ---------
    names : STUDY
        Ids, paper letters, or FILE.py:NAME; all without.

    Options
    -------
    real
        The studies on real data.
    again
        Run even what is finished.
    option : KEY=VALUE
        Of slurm, such as slurm_partition=short.
    audit
        Run rows on file again and compare.
    share : X, default: 0.1
        Of an audit: of the rows.
    seed : N, at least 0, default: random
        Of an audit: of its draw.
    """
    if audit:
        if real or quick or again or seeds is not None or first is not None:
            raise Unsupported(
                "--audit compares what is saved: leave out --real, --quick, --again, --seeds, "
                "--first"
            )
        _audit(names or [], out, 0.1 if share is None else share, seed, jobs, json_)
        return
    if share is not None or seed is not None:
        raise Unsupported("--share and --seed are of an audit: add --audit")
    from attsvm.experiments.report import write_report

    chosen, source = read_studies(names or [], real=real)
    chosen = _available(chosen, names or [])
    if (seeds is not None or first is not None) and all(study.published for study in chosen):
        raise Unsupported(f"{chosen[0].id} has published instances: leave out --seeds and --first")
    how = {"quick": quick, "seeds": seeds, "first": first, "again": again, "source": source,
           "retries": retries}  # fmt: skip
    records = run(chosen, out, how, engine_options(engine, jobs, address, option))
    _finish(out, records, write_report(out), json_)


def run(
    studies: list[Study], out: Path, how: dict[str, Any], where: dict[str, Any]
) -> list[Record]:
    """The records of studies that are run."""
    from attsvm.experiments.runner import run_studies

    try:
        with _watching([study.id for study in studies]) as watch:
            return run_studies(studies, out, **how, **where, watch=watch, say=say)
    except KeyboardInterrupt:
        stop(f"stopped: what is finished is kept in {out}; run it again to go on", 130)


def engine_options(
    engine: str, jobs: int, address: str | None, settings: list[str] | None
) -> dict[str, Any]:
    """engine and asked, as `run_studies` takes them."""
    from attsvm.experiments.executors import ExecutorConfig

    pairs = read_pairs(settings, "slurm_partition=short")
    if engine == "local" and jobs == 1 and not (address or pairs):
        engine = "here"
    return {"engine": engine, "asked": ExecutorConfig(jobs, address, options=pairs)}


def read_studies(names: list[str], *, real: bool | None = False) -> tuple[list[Study], str]:
    """The studies of these names, and the file that they are read from, if they are."""
    from attsvm.experiments.studies import chosen_studies, studies_in

    outside = [name for name in names if is_outside(name)]
    if not outside:
        return chosen_studies(names, real=real), ""
    if len(names) > 1:
        raise Unsupported(f"give {outside[0]} alone: studies of one file are run at once")
    return list(studies_in(outside[0]).values()), outside[0]


def _available(chosen: list[Study], named: list[str]) -> list[Study]:
    """Those of the studies whose packages and data are here; the others are named, one sentence.

    Raises Unsupported when one of the others was asked for by id, or when none is left.
    """
    from attsvm.experiments.studies import missing

    lacking = {study.id: missing(study.needs) for study in chosen}
    left = [study for study in chosen if not lacking[study.id]]
    for name, words in lacking.items():
        if words and (name in named or not left):
            raise Unsupported(f"{name} cannot be run: {words}")
    for words in dict.fromkeys(filter(None, lacking.values())):
        out = [name for name in lacking if lacking[name] == words]
        say(f"{', '.join(out)} left out: {words}")
    return left


def as_run(record: Record) -> Study:
    """The study of a record, at the size it was run."""
    from attsvm.experiments.spec import read_sweep, shipped_sweep
    from attsvm.experiments.studies import studies_in, study_of

    source = record["from"]
    if source.endswith(".toml"):
        study = read_sweep(Path(source))
    elif source.startswith("sweep "):
        study = shipped_sweep(source.removeprefix("sweep "))
    else:
        study = study_of(record["id"], studies_in(source) if source else None)
    return study.at(quick=record["quick"], seeds=record["seeds"], first=record["first"])


def _audit(
    names: list[str], out: Path, share: float, seed: int | None, jobs: int, json_: bool
) -> None:
    """Audit the folder and print what was found; leave with the code of a failure where it is."""
    from attsvm.experiments.audit import audit_folder
    from attsvm.experiments.executors import engine_of
    from attsvm.experiments.runner import read_record, results_folder
    from attsvm.experiments.studies import chosen_studies

    results_folder(out).open()
    chosen = [study.id for study in chosen_studies(names, real=None)] if names else []
    lost = [name for name in chosen if read_record(out, name) is None]
    if any(name in names for name in lost):
        raise Unsupported(f"{lost[0]} is not on file in {out}: run it first")
    chosen = [name for name in chosen if name not in lost]
    where = engine_options("local", jobs, None, None)
    with _watching(chosen) as watch:
        engine = engine_of(where["engine"], where["asked"])
        found = audit_folder(
            out, as_run, chosen, share=share, seed=seed, engine=engine, watch=watch
        )
        for row in found["studies"]:
            for words in row["differences"]:
                say(f"{row['id']}: {words}")
    apart = [row["id"] for row in found["studies"] if not row["agrees"]]
    states = {True: "agrees", False: "differs"}
    body = [(row["id"], states[row["agrees"]], row["drawn"], row["instances"],
             f"{row['seconds']:.1f}") for row in found["studies"]]  # fmt: skip
    count = len(body)
    lines = [
        f"{count - len(apart)} of {count} studies agree: {found['drawn']} of "
        f"{many(found['instances'], 'instance')} measured again, drawn by --seed {found['seed']}, "
        f"in {found['seconds']:.0f} s"
    ]
    if apart:
        lines.append(f"they differ from their rerun: {', '.join(apart)}")
    report = {"status": "failed" if apart else "done", **found}
    heads = ("study", "rerun", ">measured", ">instances", ">seconds")
    emit(report, json_, rows(heads, body), *lines)
    if apart:
        raise typer.Exit(FAILED)


def _finish(folder: Path, records: list[Record], page: Path, json_: bool) -> None:
    """Print what was found and where the page is, and leave with the code of the verdicts."""
    from attsvm.experiments.report import VERDICTS, failing_words, verdict_for
    from attsvm.experiments.runner import RESULTS

    counts = Counter(str(record["verdict"]) for record in records)
    wrong = [str(r["id"]) for r in records if r["verdict"] == "fails" or "error" in r]
    report = {
        "status": "failed" if wrong else "done",
        "page": str(page),
        "results": str(folder / RESULTS),
        **{verdict: counts[verdict] for verdict in VERDICTS},
        "studies": records,
    }
    body = []
    for record in records:
        spent = record.get("seconds")
        shown = f"{spent:.1f}" if isinstance(spent, int | float) else "–"
        body.append((record["id"], _verdict(record), shown, record["title"]))
    heads = ("study", "verdict", ">seconds", "title")
    said = ", ".join(f"{counts[v]} {verdict_for(v, counts[v])}" for v in VERDICTS if counts[v])
    total = f"{many(len(records), 'study')}: {said or 'none on file'}{failing_words(records)}"
    emit(report, json_, rows(heads, body), total, f"page: {page}")
    if wrong:
        say(f"{len(wrong)} of {len(records)} fail or could not be run: {', '.join(wrong)}")
        raise typer.Exit(FAILED)


def _last_records(folder: Path, names: list[str]) -> dict[str, Record]:
    """The records on file of these studies, by id; none when nothing was run in the folder."""
    from attsvm.experiments.runner import read_record, results_folder

    if folder == HERE and not results_folder(folder).exists:
        return {}
    results_folder(folder).open()
    found = {name: read_record(folder, name) for name in names}
    return {name: record for name, record in found.items() if record is not None}


def _family(study: Study) -> str:
    family = study.family
    return family if isinstance(family, str) else getattr(family, "__name__", "")


def _about(study: Study, record: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a list says of a study."""
    names = ("id", "paper", "kind", "source", "real", "title", "statement", "differs", "theorem",
             "size")  # fmt: skip
    verdict = None if record is None else record["verdict"]
    return {**{name: getattr(study, name) for name in names}, "verdict": verdict}


def _verdict(record: Record) -> str:
    return f"{record['verdict']} (broken)" if "error" in record else str(record["verdict"])


def _numbers(record: Record) -> Table:
    """The table of what was seen and what was asked."""
    met = {True: "yes", False: "no", None: ""}
    body = []
    for row in record.get("checks", []):
        seen = row.get("seen")
        shown = f"{seen:.6g}" if isinstance(seen, int | float) else seen
        body.append((row.get("what"), shown, row.get("asked"), met[row.get("met")]))
    return rows(("what", "seen", "asked", "met"), body)


@contextmanager
def _watching(names: Sequence[str]) -> Iterator[Callable[[str, str], None]]:
    """What follows studies that are run, watch(name, state): a bar on a terminal, elsewhere a line
    for each study that has ended."""
    began: dict[str, float] = {}
    ended: set[str] = set()
    with bar("studies") as progress:

        def watch(name: str, state: str) -> None:
            began.setdefault(name, time.monotonic())
            if state not in ("waiting", "running") and " of " not in state:
                ended.add(name)
                if progress is None and state != "on file":
                    spent = time.monotonic() - began[name]
                    print(f"{name} {state} {spent:.1f} s", file=sys.stderr, flush=True)
            if progress is not None:
                progress(len(ended) / max(len(names), len(began)), f"{name} {state}")

        yield watch

"""list, show, reproduce and report: the claims, what was found of them, and how they are run."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm._utils.files import to_json
from attsvm.cli.options import FAILED, Jobs, Json, app, option
from attsvm.cli.output import emit, live, many, rows, say
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from attsvm.experiments.studies.claim import Claim

# The claims and what draws them are loaded by the commands that need them: the others start fast.

Record = dict[str, Any]
HERE = Path("attsvm-report")
Folder = Annotated[Path, option("--out", "FOLDER", "Folder of the results.")]
From = Annotated[
    Path | None,
    option(
        "--from",
        "FILE.py",
        "Custom claims: CLAIM or CLAIMS of FILE.",
        show_default="the shipped claims",
    ),
]
# The colours of verdicts, and of the states of claims that are being run.
COLOURS = {
    "holds": "green",
    "fails": "bold red",
    "not reproduced at this size": "yellow",
    "undecided": "yellow",
    "broken": "bold red",
    "agrees": "green",
    "differs": "bold red",
    "waiting": "dim",
    "on file": "dim green",
}


@app.command("list", epilog="Example: attsvm list --out attsvm-report")
def list_command(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="CLAIM", help="Ids or paper letters.")
    ] = None,
    out: Folder = HERE,
    source: From = None,
    as_json: Json = False,
) -> None:
    """The claims: id, kind, title, and the last verdict where there is one.

    Those marked (--real) are on real data: `attsvm reproduce --real` runs them.
    """
    from rich.text import Text

    from attsvm.experiments.reproduce import chosen_ids, known_claims
    from attsvm.experiments.reproduce.page.claim import kind_words

    known = known_claims(source)
    names = chosen_ids(papers or [], known, real=None)
    last = _last_records(out, known)
    stated = {name: _about(known[name], last.get(name)) for name in names}
    body = []
    for name, claim in stated.items():
        verdict = _verdict(last[name]) if name in last else Text("not run", "dim")
        title = f"{claim['title']} (--real)" if claim["real"] else claim["title"]
        shown = [verdict] if last else []
        body.append((name, kind_words(claim), claim["trust"], *shown, title))
    heads = ("claim", "kind", "source", *(["verdict"] if last else []), "title")
    emit({"status": "done", "claims": list(stated.values())}, as_json, rows(heads, body))


@app.command("show", epilog="Example: attsvm show A.single-input-local")
def show_command(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="Id of a claim.")],
    out: Folder = HERE,
    source: From = None,
    as_json: Json = False,
) -> None:
    """One claim: its statement, and the numbers of its last run or how it would be run."""
    from rich.text import Text

    from attsvm.experiments.reproduce import known_claims
    from attsvm.experiments.reproduce.page.claim import KINDS, TRUST
    from attsvm.experiments.studies import claim_of

    known = known_claims(source)
    found = claim_of(claim, known)
    record = _last_records(out, known).get(found.id)
    parts: list[Any] = [Text(f"{found.id}  {found.title}", "bold"), Text(found.statement), ""]
    quiet = [KINDS[found.kind], TRUST[found.trust]]
    quiet += [f"In the paper: {found.numbered}"] if found.numbered else []
    quiet += [f"Size: {found.size}"] if found.size else []
    parts += [Text(line, "dim") for line in quiet]
    if found.differs:
        parts += ["", Text(f"Differs from what is published: {found.differs}")]
    if record is None:
        parts += ["", "Not run yet. Its config:"]
        parts += [f"  {key} = {to_json(value)}" for key, value in found.full.items()]
        where = "" if source is None else f" --from {source}"
        parts += [f"Run it: attsvm reproduce {found.id}{where}"]
    else:
        size = " (quick)" if record.get("quick") else ""
        parts += ["", Text.assemble("Verdict: ", _verdict(record), size), _numbers(record)]
        ends = (("Premises", record.get("premises")), ("Reason", record.get("reason")))
        parts += [Text(f"{name}: {value}") for name, value in ends if value]
    about = {"status": "done", **_about(found, record)}
    emit(about | {"full": found.full, "quick": found.quick, "record": record}, as_json, *parts)


@app.command("report", epilog="Example: attsvm report attsvm-report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")] = HERE,
    as_json: Json = False,
) -> None:
    """Draw the page again from saved results."""
    from attsvm.experiments.reproduce.folder import gather, open_folder
    from attsvm.experiments.reproduce.page.document import write_page
    from attsvm.experiments.studies import CLAIMS

    place = open_folder(folder)
    _finish(place, gather(place, CLAIMS, say), write_page(place), as_json)


@app.command("reproduce", epilog="Example: attsvm reproduce A --quick --jobs 2")
def reproduce_command(
    claims: Annotated[
        list[str] | None,
        typer.Argument(metavar="CLAIM", help="Ids or paper letters; all without."),
    ] = None,
    real: Annotated[bool, option("--real", None, "The claims on real data.")] = False,
    quick: Annotated[bool, option("--quick", None, "Small counts, the same checks.")] = False,
    out: Folder = HERE,
    jobs: Jobs = 0,
    again: Annotated[bool, option("--again", None, "Run even what is finished.")] = False,
    source: From = None,
    instances: Annotated[
        int | None,
        option(
            "--instances",
            "N",
            "Random instances per cell; at least 2.",
            show_default="those of the claim",
        ),
    ] = None,
    first: Annotated[
        int | None,
        option(
            "--first",
            "N",
            "Draw the instances from this seed on.",
            show_default="that of the claim",
        ),
    ] = None,
    audit: Annotated[
        bool, option("--audit", None, "Run some claims on file again and compare.")
    ] = False,
    share: Annotated[
        float | None, option("--share", "X", "Of an audit: of the claims.", show_default="0.1")
    ] = None,
    seed: Annotated[
        int | None,
        option("--seed", "N", "Of an audit: of its draw.", min=0, show_default="random"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the claims, judge and draw them, and write one page; or audit a finished folder.

    What is finished, by this code and with this config, is not run again. An audit draws a
    share of the claims on file, runs them again with their config, compares the verdict and every
    number (within 1e-6, relative) and changes nothing. --instances and --first draw other
    random instances than the claim's own; published ones stay. --real runs the claims on real data,
    which are else run by id alone: they need torch and data sets, and without them are left out
    with a sentence; each of their training runs is kept by itself, so that a killed run goes on
    from there. With --from FILE.py the claims are
    those that FILE.py defines as CLAIM or CLAIMS. Exit code 0: no claim fails, or all agree
    (undecided and not reproduced at this size are no failures); 5: a claim fails, could not be run,
    or does not agree with its rerun; 2: bad input or no space left.
    """
    if audit:
        if real or quick or again or instances is not None or first is not None:
            raise Unsupported(
                "--audit compares what is saved: leave out --real, --quick, --again, --instances, "
                "--first"
            )
        options = {"out": out, "seed": seed, "jobs": jobs, "source": source}
        _audit(claims or [], options if share is None else {**options, "share": share}, as_json)
        return
    if share is not None or seed is not None:
        raise Unsupported("--share and --seed are of an audit: add --audit")
    from attsvm.experiments.reproduce import at_hand, chosen_ids, known_claims, reproduce_claims
    from attsvm.experiments.reproduce.draws import Draws, asked_configs
    from attsvm.experiments.reproduce.page.document import write_page

    known = known_claims(source)
    chosen = chosen_ids(claims or [], known, real=real)
    names = at_hand(chosen, known, named=claims or [], say=say)
    draws = Draws(instances, first)
    asked_configs([known[name] for name in names], quick, draws)
    if not claims and source is None and not real:  # the main job, which needs them all
        _warm(jobs)
    how: dict[str, Any] = {"quick": quick, "jobs": jobs, "again": again, "source": source}
    with _watching(names) as (watch, above):
        records = reproduce_claims(names, out=out, **how, draws=draws, watch=watch, say=above)
    _finish(out, records, write_page(out), as_json)


def _warm(jobs: int) -> None:
    """Compile every kernel before the first claim, so that no claim's seconds include it."""
    from attsvm._utils.compiled import silence
    from attsvm.cli.warm import warm_up
    from attsvm.experiments.reproduce import workers

    silence()
    start = time.perf_counter()
    if count := warm_up(workers(jobs)):
        seconds = time.perf_counter() - start
        print(f"compiled {many(count, 'kernel')} in {seconds:.0f} s, once per machine",
              file=sys.stderr)  # fmt: skip


def _audit(claims: list[str], options: dict[str, Any], as_json: bool) -> None:
    """Audit the folder and print what was found; leave with the code of a failure where it is."""
    from rich.text import Text

    from attsvm.experiments.reproduce import audit_claims

    with _watching([]) as (watch, above):
        found = audit_claims(claims, **options, watch=watch, say=above)
    apart = [row["id"] for row in found["claims"] if not row["agrees"]]
    states = {True: Text("agrees", "green"), False: Text("differs", "bold red")}
    body = [(row["id"], states[row["agrees"]], f"{row['seconds']:.1f}") for row in found["claims"]]
    count = len(body)
    lines = [
        f"{count - len(apart)} of {many(count, 'claim')} agree with their rerun (of {found['of']} "
        f"on file, drawn by --seed {found['seed']}), in {found['seconds']:.0f} s"
    ]
    if apart:
        lines.append(f"they differ from their rerun: {', '.join(apart)}")
    report = {"status": "failed" if apart else "done", **found}
    emit(report, as_json, rows(("claim", "rerun", ">seconds"), body), *lines)
    if apart:
        raise typer.Exit(FAILED)


def _finish(folder: Path, records: list[Record], page: Path, as_json: bool) -> None:
    """Print what was found and where the page is, and leave with the code of the verdicts."""
    from attsvm.experiments.reproduce.folder import RESULTS
    from attsvm.experiments.reproduce.page.claim import VERDICTS, failing_words, verdict_for

    counts = Counter(str(record["verdict"]) for record in records)
    wrong = [str(r["id"]) for r in records if r["verdict"] == "fails" or "error" in r]
    report = {
        "status": "failed" if wrong else "done",
        "page": str(page),
        "results": str(folder / RESULTS),
        **{verdict: counts[verdict] for verdict in VERDICTS},
        "claims": records,
    }
    body = []
    for record in records:
        spent = record.get("seconds")
        shown = f"{spent:.1f}" if isinstance(spent, int | float) else "–"
        body.append((record["id"], _verdict(record), shown, record["title"]))
    heads = ("claim", "verdict", ">seconds", "title")
    said = ", ".join(f"{counts[v]} {verdict_for(v, counts[v])}" for v in VERDICTS if counts[v])
    total = f"{many(len(records), 'claim')}: {said or 'none on file'}{failing_words(records)}"
    emit(report, as_json, rows(heads, body), total, f"page: {page}")
    if wrong:
        say(f"{len(wrong)} of {len(records)} fail or could not be run: {', '.join(wrong)}")
        raise typer.Exit(FAILED)


def _last_records(folder: Path, known: Mapping[str, Claim]) -> dict[str, Record]:
    """The records on file of these claims, by id; none when nothing was run in the folder."""
    from attsvm.experiments.reproduce.folder import open_folder, read_record

    if folder == HERE and not (folder / "attsvm.json").exists():
        return {}
    place = open_folder(folder)
    found = {name: read_record(place / "claims" / f"{name}.json", say) for name in known}
    return {name: record for name, record in found.items() if record is not None}


def _about(claim: Claim, record: Record | None) -> dict[str, Any]:
    """What a list says of a claim."""
    names = ("id", "paper", "kind", "trust", "real", "title", "statement", "differs", "numbered",
             "size")  # fmt: skip
    verdict = None if record is None else record["verdict"]
    return {**{name: getattr(claim, name) for name in names}, "verdict": verdict}


def _verdict(record: Record) -> Text:
    """The verdict in its colour."""
    from rich.text import Text

    verdict = str(record["verdict"])
    return Text(f"{verdict} (broken)" if "error" in record else verdict, COLOURS.get(verdict, ""))


def _numbers(record: Record) -> Table:
    """The table of what was seen and what was asked."""
    met = {True: "yes", False: "no", None: ""}
    body = []
    for row in record.get("numbers", []):
        seen = row.get("seen")
        shown = f"{seen:.6g}" if isinstance(seen, int | float) else seen
        body.append((row.get("what"), shown, row.get("asked"), met[row.get("met")]))
    return rows(("what", "seen", "asked", "met"), body)


class Board:
    """The state of every claim and since when, as a table that fits the screen."""

    def __init__(self, names: list[str]) -> None:
        self.state = dict.fromkeys(names, "waiting")
        self.began: dict[str, float] = {}
        self.took: dict[str, float] = {}
        self.start = time.monotonic()

    def update(self, name: str, state: str) -> None:
        """Note a change; off a terminal, print a line for a claim that has ended."""
        self.state[name] = state
        if state == "running":
            self.began[name] = time.monotonic()
        elif name in self.began and not state.startswith("runs "):
            self.took[name] = time.monotonic() - self.began[name]
            if not sys.stderr.isatty():
                print(f"{name} {state} {self.took[name]:.1f} s", file=sys.stderr, flush=True)

    def _order(self, name: str) -> tuple[int, float]:
        """What runs first, then what ended last, then what waits, then what is on file."""
        if self.state[name] in ("waiting", "on file"):
            return 2 + (self.state[name] == "on file"), 0.0
        return int(name in self.took), -self.began.get(name, 0.0) - self.took.get(name, 0.0)

    def __rich_console__(self, console: Console, options: Any) -> Iterator[Table]:
        from rich.text import Text

        body = []
        for name in sorted(self.state, key=self._order)[: max(console.height - 4, 3)]:
            state, began = self.state[name], self.began.get(name)
            seconds = self.took.get(name, 0.0 if began is None else time.monotonic() - began)
            shown = "" if began is None else f"{seconds:.1f}"
            body.append((name, Text(state, COLOURS.get(state, "cyan")), shown))
        done = sum(n in self.took or s == "on file" for n, s in self.state.items())
        spent = time.monotonic() - self.start
        caption = f"{done} of {many(len(self.state), 'claim')}, {spent:.0f} s"
        heads = ("claim", "state", ">seconds")
        yield rows(heads, body, caption=caption, caption_justify="left")


@contextmanager
def _watching(names: list[str]) -> Iterator[tuple[Callable[..., None], Callable[[str], None]]]:
    """What follows claims that are run: watch(name, state) and say(sentence)."""
    board = Board(names)
    with live(board) as above:
        yield board.update, above

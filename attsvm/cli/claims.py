"""list, show, reproduce, report."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from attsvm.cli.parts.claims_audit import show_audit
from attsvm.cli.parts.claims_live import watching
from attsvm.cli.parts.options import FAILED, Json, app, print_json
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.claims.claim import Claim

# The claims and what draws them are loaded by the commands that need them: the others start fast.

Record = dict[str, Any]
HERE = Path("attsvm-report")
Folder = Annotated[Path, typer.Option("--out", help="Folder of the results.")]
COLOURS = {"holds": "green", "fails": "bold red", "undecided": "yellow"}


@app.command("list", epilog="Example: attsvm list --out attsvm-report")
def list_command(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="[CLAIM]...", help="Ids or paper letters.")
    ] = None,
    out: Folder = HERE,
    as_json: Json = False,
) -> None:
    """The claims: id, kind, title, and the last verdict where there is one."""
    from attsvm.claims import CLAIMS
    from attsvm.reproduce import chosen_ids

    names = chosen_ids(papers or [])
    last = _last(out)
    if as_json:
        print_json({"status": "done", "claims": [_about(CLAIMS[n], last.get(n)) for n in names]})
        return
    table = Table(box=None, pad_edge=False)
    for head in ("claim", "kind", *(["verdict"] if last else []), "title"):
        table.add_column(head, no_wrap=head != "title")
    for name in names:
        verdict = _verdict(last[name]) if name in last else Text("not run", "dim")
        table.add_row(name, CLAIMS[name].kind, *([verdict] if last else []), CLAIMS[name].title)
    Console(markup=False).print(table)


@app.command("show", epilog="Example: attsvm show A.single-input-local")
def show_command(
    claim: Annotated[str, typer.Argument(metavar="CLAIM", help="Id of a claim.")],
    out: Folder = HERE,
    as_json: Json = False,
) -> None:
    """One claim: its statement, and the numbers of its last run or how it would be run."""
    from attsvm.claims import claim_of
    from attsvm.reproduce.page.claim import KINDS, TRUST

    found = claim_of(claim)
    record = _last(out).get(found.id)
    if as_json:
        print_json({"status": "done", **_about(found, record), **_configs(found, record)})
        return
    parts: list[Any] = [
        Text(f"{found.id}  {found.title}", "bold"), Text(found.statement), Text(),
        Text(KINDS[found.kind], "dim"), Text(TRUST[found.trust], "dim"),
    ]  # fmt: skip
    if found.differs:
        parts += [Text(), Text(f"Differs from what is published: {found.differs}")]
    if record is None:
        parts += [Text(), Text("Not run yet. Its config:")]
        parts += [Text(f"  {key} = {json.dumps(value)}") for key, value in found.full.items()]
        parts += [Text(f"Run it: attsvm reproduce {found.id}")]
    else:
        size = " (quick)" if record.get("quick") else ""
        parts += [Text(), Text.assemble("Verdict: ", _verdict(record), size), _numbers(record)]
        parts += [
            Text(f"{word}: {record[key]}")
            for key, word in (("premises", "Premises"), ("reason", "Reason"))
            if record.get(key)
        ]
    Console(markup=False, highlight=False).print(Group(*parts))


@app.command("reproduce", epilog="Example: attsvm reproduce A --quick --jobs 2")
def reproduce_command(
    claims: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CLAIM]...", help="Ids or paper letters; all without."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small counts, the same checks.")] = False,
    out: Folder = HERE,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Processes; 0 for one a core.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Run even what is finished.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Compare what is saved with a rerun of a part of it.")
    ] = False,
    share: Annotated[
        float | None, typer.Option("--share", help="Of an audit: the part, a tenth without it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of an audit: which part; drawn without it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the claims, judge and draw them, and write one page; or audit a finished folder.

    What is finished, by this code and with this config, is not run again. An audit runs a random
    part of every claim's instances again and changes nothing. Exit code 0: every claim holds or is
    undecided, or agrees; 5: a claim fails, could not be run, or does not agree with its rerun;
    2: bad input or no space left.
    """
    if audit:
        if quick or again:
            raise Unsupported("--audit compares what is saved: leave out --quick and --again")
        show_audit(claims or [], out=out, seed=seed, share=share, jobs=jobs, as_json=as_json)
        return
    if share is not None or seed is not None:
        raise Unsupported("--share and --seed are of an audit: add --audit")
    from attsvm.reproduce import chosen_ids, reproduce
    from attsvm.reproduce.page.document import write_page

    with watching(chosen_ids(claims or [])) as (watch, say):
        records = reproduce(
            claims or [], out=out, quick=quick, jobs=jobs, again=again, watch=watch, say=say
        )
    _finish(out, records, write_page(out), as_json)


@app.command("report", epilog="Example: attsvm report attsvm-report --judge")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the results.")] = HERE,
    judging: Annotated[
        bool, typer.Option("--judge", help="Judge again from the saved arrays; runs no instance.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Draw the page again from saved results.

    Judging again runs no instance: it checks the digests of the arrays, takes the last step of
    every run again from the record before it, certifies every solution again, and recomputes every
    number. What does not fit makes its claim undecided, and the exit code 5.
    """
    from attsvm.claims import CLAIMS
    from attsvm.reproduce import judge
    from attsvm.reproduce.folder import gather, opened
    from attsvm.reproduce.page.document import write_page

    place = opened(folder)
    records = judge(place, say=_say) if judging else gather(place, CLAIMS, _say)
    _finish(place, records, write_page(place), as_json)


def _finish(folder: Path, records: list[Record], page: Path, as_json: bool) -> None:
    """Print what was found and where the page is, and leave with the code of the verdicts."""
    from attsvm.reproduce.folder import RESULTS
    from attsvm.reproduce.page.claim import VERDICTS

    counts = Counter(str(record["verdict"]) for record in records)
    doubted = [str(r["id"]) for r in records if r.get("doubts")]
    wrong = [str(r["id"]) for r in records if r["verdict"] == "fails" or "error" in r]
    if as_json:
        print_json({
            "status": "failed" if wrong or doubted else "done", "page": str(page),
            "results": str(folder / RESULTS), **{v: counts[v] for v in VERDICTS},
            "claims": records,
        })  # fmt: skip
    else:
        table = Table(box=None, pad_edge=False)
        for head in ("claim", "verdict", "seconds", "title"):
            justify: Any = "right" if head == "seconds" else "left"
            table.add_column(head, no_wrap=head != "title", justify=justify)
        for record in records:
            spent = record.get("seconds")
            shown = f"{spent:.1f}" if isinstance(spent, int | float) else "–"
            table.add_row(str(record["id"]), _verdict(record), shown, str(record["title"]))
        Console(markup=False).print(table)
        said = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
        print(f"{len(records)} claims: {said or 'none on file'}\npage: {page}")
    if wrong:
        _say(f"{len(wrong)} of {len(records)} fail or could not be run: {', '.join(wrong)}")
    if doubted:
        _say(f"{len(doubted)} of {len(records)} are not what a run makes: {', '.join(doubted)}")
    if wrong or doubted:
        raise typer.Exit(FAILED)


def _last(folder: Path) -> dict[str, Record]:
    """The records on file in this folder, by id; none when nothing was run there."""
    from attsvm.claims import CLAIMS
    from attsvm.reproduce.folder import opened, read_record

    if folder == HERE and not (folder / "attsvm.json").exists():
        return {}
    place = opened(folder)
    found = {name: read_record(place / "claims" / f"{name}.json", _say) for name in CLAIMS}
    return {name: record for name, record in found.items() if record is not None}


def _about(claim: Claim, record: Record | None) -> dict[str, Any]:
    """What a list says of a claim."""
    about = {
        "id": claim.id, "paper": claim.paper, "kind": claim.kind, "trust": claim.trust,
        "title": claim.title, "statement": claim.statement, "differs": claim.differs,
    }  # fmt: skip
    return {**about, "verdict": None if record is None else record["verdict"]}


def _configs(claim: Claim, record: Record | None) -> dict[str, Any]:
    return {"full": claim.full, "quick": claim.quick, "record": record}


def _verdict(record: Record) -> Text:
    verdict = str(record["verdict"])
    return Text(f"{verdict} (broken)" if "error" in record else verdict, COLOURS.get(verdict, ""))


def _numbers(record: Record) -> Table:
    """The table of what was seen and what was asked."""
    table = Table(box=None, pad_edge=False)
    for head in ("what", "seen", "asked", "met"):
        table.add_column(head)
    words = {True: "yes", False: "no", None: ""}
    for row in record.get("numbers", []):
        seen = row.get("seen")
        shown = f"{seen:.6g}" if isinstance(seen, int | float) else str(seen)
        table.add_row(str(row.get("what")), shown, str(row.get("asked")), words[row.get("met")])
    return table


def _say(sentence: str) -> None:
    print(f"attsvm: {sentence}", file=sys.stderr)

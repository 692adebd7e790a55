"""reproduce: run the claims, judge and draw them, write one page; or audit a finished folder."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from attsvm.cli.parts.options import FAILED, Json, app, print_json
from attsvm.cli.parts.records import HERE, Folder, From, finish
from attsvm.cli.parts.records import say as tell
from attsvm.errors import Unsupported


@app.command("reproduce", epilog="Example: attsvm reproduce A --quick --jobs 2")
def reproduce_command(
    claims: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CLAIM]...", help="Ids or paper letters; all without."),
    ] = None,
    real: Annotated[bool, typer.Option("--real", help="The claims on real data.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small counts, the same checks.")] = False,
    out: Folder = HERE,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=0, help="Processes; 0 for one per core.")
    ] = 0,
    again: Annotated[bool, typer.Option("--again", help="Run even what is finished.")] = False,
    source: From = None,
    instances: Annotated[
        int | None,
        typer.Option("--instances", metavar="N", help="Random instances a cell; at least 2."),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option("--first", metavar="N", help="Draw the instances from this seed on."),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Run some claims on file again and compare.")
    ] = False,
    share: Annotated[
        float | None,
        typer.Option("--share", metavar="X", help="Of an audit: of the claims; default: 0.1."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="N", min=0, help="Of an audit: of its draw; random without it."
        ),
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
    from attsvm.cli.parts.live import watching
    from attsvm.experiments.reproduce import at_hand, chosen_ids, known_claims, reproduce_claims
    from attsvm.experiments.reproduce.draws import Draws, asked_configs
    from attsvm.experiments.reproduce.page.document import write_page

    known = known_claims(source)
    chosen = chosen_ids(claims or [], known, real=real)
    names = at_hand(chosen, known, named=claims or [], say=tell)
    draws = Draws(instances, first)
    asked_configs([known[name] for name in names], quick, draws)
    if not claims and source is None and not real:  # the main job, which needs them all
        _warm(jobs)
    how: dict[str, Any] = {"quick": quick, "jobs": jobs, "again": again, "source": source}
    with watching(names) as (watch, say):
        records = reproduce_claims(names, out=out, **how, draws=draws, watch=watch, say=say)
    finish(out, records, write_page(out), as_json)


def _warm(jobs: int) -> None:
    """Compile every kernel before the first claim, so that no claim's seconds include it."""
    from attsvm._utils.compiled import silence
    from attsvm.cli.parts.warming import warm_up
    from attsvm.experiments.reproduce import workers

    silence()
    start = time.perf_counter()
    if count := warm_up(workers(jobs)):
        seconds = time.perf_counter() - start
        print(f"compiled {count} kernels in {seconds:.0f} s, once per machine", file=sys.stderr)


def _audit(claims: list[str], options: dict[str, Any], as_json: bool) -> None:
    """Audit the folder and print what was found; leave with the code of a failure where it is."""
    from attsvm.cli.parts.live import watching
    from attsvm.experiments.reproduce import audit_claims

    with watching([]) as (watch, say):
        found = audit_claims(claims, **options, watch=watch, say=say)
    apart = [row["id"] for row in found["claims"] if not row["agrees"]]
    if as_json:
        print_json({"status": "failed" if apart else "done", **found})
    else:
        _print_audit(found, apart)
    if apart:
        raise typer.Exit(FAILED)


def _print_audit(found: dict[str, Any], apart: list[str]) -> None:
    """The claims in one line each, and what was done in all."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for head in ("claim", "rerun", "seconds"):
        table.add_column(head, no_wrap=True, justify="right" if head == "seconds" else "left")
    for row in found["claims"]:
        state = Text("agrees", "green") if row["agrees"] else Text("differs", "bold red")
        table.add_row(row["id"], state, f"{row['seconds']:.1f}")
    Console(markup=False).print(table)
    count = len(found["claims"])
    print(
        f"{count - len(apart)} of {count} claims agree with their rerun (of {found['of']} on file, "
        f"drawn by --seed {found['seed']}), in {found['seconds']:.0f} s"
    )
    if apart:
        print(f"they differ from their rerun: {', '.join(apart)}")

"""inspect: what every head of a trained model selects, how economically, and what is guaranteed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm.cli.parts.options import FAILED, Json, app, print_json
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.inspection import Inspection, InspectionConfig


@app.command("inspect", epilog="Example: attsvm inspect minilm --quick --out heads")
def inspect_command(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="A folder, or minilm (without it), rxnfp, rxnmapper."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", help="The same model before training: what has changed."),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option("--text", help="Passages, one a line or apart by blank lines; ours without."),
    ] = None,
    layers: Annotated[
        str | None, typer.Option("--layers", help="Such as 0,2-4; all without it.")
    ] = None,
    heads: Annotated[
        str | None, typer.Option("--heads", help="Such as 0,2-4; all without it.")
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option("--queries", help="Queries to fit on; twice as many are held out."),
    ] = None,
    length: Annotated[
        int | None, typer.Option("--length", min=2, help="Tokens a text is cut to; 32 without it.")
    ] = None,
    at: Annotated[
        int | None,
        typer.Option("--at", help="Where the query stands, 0 for the first; at random without."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer queries and nulls, Frobenius norm only.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for results.json and report.html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say for each head what it selects, beside nulls, and what can be guaranteed of it.

    One query is drawn from each text. A head is a sink, positional, content or diffuse; its economy
    is the share of its norm that would do for its choices, beside matrices of the same spectrum.
    Keys that may be dropped, how far tokens may move and whether int8 keeps a choice are certified,
    and attacked. Nothing is downloaded. Exit code 0: no guarantee was broken; 5: one was; 2: bad
    input.
    """
    from attsvm.inspection import compare, inspect, load, read_passages, sample_texts

    if out is not None:
        from attsvm.inspection.page.folder import check_folder

        check_folder(out)
    plan = _plan(queries, seed, quick)
    start = time.perf_counter()
    model = "minilm" if model is None else model
    known = load(model)
    texts = read_passages(text) if text is not None else sample_texts(known.texts)
    asked = {"layers": numbers(layers, "--layers"), "heads": numbers(heads, "--heads")}
    length = min(32, known.transformer.longest) if length is None else length
    earlier = None
    if against is not None:
        from attsvm.inspection.change import check_same

        earlier = load(against)
        check_same(earlier, known)
    found = inspect(known, texts, plan=plan, length=length, at=at, **asked)
    report = {"status": "done", **found.as_json(), "about": known.about()}
    if earlier is not None:
        change = compare(earlier, known, texts, plan=plan, length=length, at=at, **asked)
        report["change"] = change.as_json()
    report["settings"] = {
        "model": model,
        "against": against,
        "text": None if text is None else str(text),
        **asked,
        "length": length,
        "at": at,
    }
    report["seconds"] = time.perf_counter() - start
    if out is not None:
        from attsvm.inspection.page.folder import write_folder

        write_folder(out, report)
    if as_json:
        print_json({key: value for key, value in report.items() if key != "details"})
    else:
        _print(found, report, out)
    if sum(int(record["violations"]) for record in found.records):
        raise typer.Exit(FAILED)


def numbers(text: str | None, option: str) -> list[int] | None:
    """The numbers that a text such as 0,2-4 names, in order; None for none.

    >>> numbers("0,2-4", "--layers")
    [0, 2, 3, 4]
    """
    if text is None:
        return None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise Unsupported(f"{option} is {text!r}: give numbers such as 0,2-4")
        ends = int(first), int(last or first)
        if ends[0] > ends[1] or ends[1] > 100_000:
            raise Unsupported(f"{option} is {text!r}: give numbers such as 0,2-4")
        found.update(range(ends[0], ends[1] + 1))
    return sorted(found)


def _plan(queries: int | None, seed: int, quick: bool) -> InspectionConfig:
    from dataclasses import replace

    from attsvm.inspection import InspectionConfig as Spent

    plan = Spent.quick(seed=seed) if quick else Spent(seed=seed)
    if queries is None:
        return plan
    if not 1 <= queries <= 1_000_000:
        raise Unsupported(f"--queries is {queries}: give at least 1, at most 1,000,000")
    return replace(plan, fit=queries, test=2 * queries)


def _print(found: Inspection, report: dict[str, Any], out: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    names = (
        "layer.head",
        "kind",
        "sharp",
        "optimizer",
        "SVM",
        "content",
        "economy",
        "null",
        "int8",
    )
    for name in names:
        table.add_column(name, justify="left" if name in names[:2] else "right", no_wrap=True)
    for one in found.records:
        table.add_row(
            f"{one['layer']}.{one['head']}",
            one["kind"],
            _two(one["sharpness"]),
            _two(one["rule_agreement"]),
            _two(one["svm_agreement"]),
            _two(one["content_svm_agreement"]),
            _two(one["economy"]),
            _two(one["economy_rotated"]),
            _two(one["int8_safe"]),
        )
    Console(markup=False).print(table)
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.counts().items())
    attacks = sum(int(record["attacks"]) for record in found.records)
    broken = sum(int(record["violations"]) for record in found.records)
    first = found.records[0]
    print(
        f"{report['model']}: {len(found.records)} attention heads on {report['texts']} texts, "
        f"{first['fitted']} fitted and {first['tested']} held out: {kinds}"
    )
    if found.repeated:
        print(f"left out as repetitions: {found.repeated} texts, whose tokens another one has")
    print(f"guarantees attacked {attacks:,} times, {broken} broken ({report['seconds']:.0f} s)")
    sharpest = max(range(len(found.records)), key=lambda k: found.records[k]["sharpness"])
    print(found.sentence(sharpest))
    if "change" in report:
        _print_change(report["change"])
    if out is not None:
        print(f"page: {out / 'report.html'}")


def _print_change(change: dict[str, Any]) -> None:
    from attsvm.inspection.page.change import change_facts

    print(f"against {change['before']}:")
    for what, said in change_facts(change).items():
        print(f"  {what}: {said}")


def _two(value: Any) -> str:
    """A number in two digits; a dash where it does not apply."""
    return "–" if not isinstance(value, int | float) or value != value else f"{value:.2g}"

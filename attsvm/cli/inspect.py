"""inspect: what every head of a trained model selects, how economically, and what is guaranteed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attsvm.cli.options import FAILED, Json, app, option
from attsvm.cli.output import emit, many, rows
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.inspection import Inspection, InspectionConfig


@app.command("inspect", epilog="Example: attsvm inspect minilm --quick --out heads")
def inspect_command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder, or minilm, rxnfp, rxnmapper.")
    ] = "minilm",
    against: Annotated[
        str | None,
        option("--against", "MODEL", "The model before training: what has changed."),
    ] = None,
    text: Annotated[
        Path | None,
        option(
            "--text",
            "FILE",
            "Passages, one a line or apart by blank lines.",
            show_default="the shipped passages",
        ),
    ] = None,
    layers: Annotated[
        str | None, option("--layers", "LIST", "Such as 0,2-4.", show_default="all")
    ] = None,
    heads: Annotated[
        str | None, option("--heads", "LIST", "Such as 0,2-4.", show_default="all")
    ] = None,
    queries: Annotated[
        int | None,
        option(
            "--queries",
            "N",
            "Queries to fit on; twice as many are held out.",
            show_default="200; 60 with --quick",
        ),
    ] = None,
    length: Annotated[
        int | None, option("--length", "N", "Tokens a text is cut to.", min=2, show_default="32")
    ] = None,
    at: Annotated[
        int | None,
        option("--at", "N", "Index of the query, 0 for the first token.", show_default="random"),
    ] = None,
    seed: Annotated[int, option("--seed", "N", "Of every draw.", min=0)] = 0,
    quick: Annotated[
        bool, option("--quick", None, "Fewer queries and nulls, Frobenius norm only.")
    ] = False,
    out: Annotated[
        Path | None, option("--out", "FOLDER", "Folder for results.json and report.html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say for each attention head what it selects, beside nulls, and what can be guaranteed of it.

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
    plain = {key: value for key, value in report.items() if key != "details"}
    emit(plain, as_json, *([] if as_json else _shown(found, report, out)))
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


def _shown(found: Inspection, report: dict[str, Any], out: Path | None) -> list[Any]:
    """The table of the attention heads, and sentences on all of them."""
    columns = {
        "layer.head": None, "kind": None, ">sharp": "sharpness", ">optimizer": "rule_agreement",
        ">SVM": "svm_agreement", ">content": "content_svm_agreement", ">economy": "economy",
        ">null": "economy_rotated", ">int8": "int8_safe",
    }  # fmt: skip
    table = rows(
        columns,
        (
            (
                f"{one['layer']}.{one['head']}",
                one["kind"],
                *(_two(one[name]) for name in columns.values() if name),
            )
            for one in found.records
        ),
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.counts().items())
    attacks = sum(int(record["attacks"]) for record in found.records)
    broken = sum(int(record["violations"]) for record in found.records)
    first = found.records[0]
    lines = [
        f"{report['model']}: {many(len(found.records), 'attention head')} on "
        f"{many(report['texts'], 'text')}, {first['fitted']} fitted and {first['tested']} held "
        f"out: {kinds}"
    ]
    if found.repeated:
        repeated = many(found.repeated, "text")
        lines.append(f"left out as repetitions: {repeated}, whose tokens another one has")
    lines.append(
        f"guarantees attacked {many(attacks, 'time')}, {broken} broken ({report['seconds']:.0f} s)"
    )
    sharpest = max(range(len(found.records)), key=lambda k: found.records[k]["sharpness"])
    lines.append(found.sentence(sharpest))
    if "change" in report:
        from attsvm.inspection.page.change import change_facts

        lines.append(f"against {report['change']['before']}:")
        lines += [f"  {what}: {said}" for what, said in change_facts(report["change"]).items()]
    return [table, *lines, *([f"page: {out / 'report.html'}"] if out is not None else [])]


def _two(value: Any) -> str:
    """A number in two digits; a dash where it does not apply."""
    return "–" if not isinstance(value, int | float) or value != value else f"{value:.2g}"

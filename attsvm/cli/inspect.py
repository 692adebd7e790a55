"""inspect: what every head of a trained model selects, how economically, and what is guaranteed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attsvm.cli.options import FAILED, command
from attsvm.cli.output import emit, many, rows

if TYPE_CHECKING:
    from attsvm.inspection import Inspection

# Columns of the table in a terminal -> fields.
_COLUMNS = {
    "head": "name", "kind": "kind", ">sharp": "sharpness", ">rule": "rule_agreement",
    ">SVM": "svm_agreement", ">content": "content_svm_agreement", ">norm ratio": "norm_ratio",
    ">null": "norm_ratio_rotated", ">evictable": "evictable", ">int8": "int8_safe",
}  # fmt: skip


@command("minilm --quick --out heads")
def inspect_command(
    model: str = "minilm",
    against: str | None = None,
    text: Path | None = None,
    heads: str | None = None,
    queries: int | None = None,
    length: int = 32,
    at: int | None = None,
    seed: int = 0,
    quick: bool = False,
    out: Path | None = None,
    json_: bool = False,
) -> None:
    """Say for each attention head what it selects, beside nulls, and what can be guaranteed of it.

    One query is drawn from each text. A head, named L3H5, is a sink, positional, content or
    diffuse; its norm ratio is the share of its norm that would do for its choices, beside matrices
    of the same spectrum. Keys that may be dropped, how far tokens may move and whether int8 keeps a
    choice are certified, and attacked. Nothing is downloaded. Exit code 0: no guarantee was broken;
    5: one was; 2: bad input.

    Arguments
    ---------
    model : MODEL
        A folder by save_pretrained, or minilm, rxnfp, rxnmapper.

    Options
    -------
    against : MODEL
        The model before training: what has changed.
    text : FILE, default: the shipped passages
        Passages, one a line or apart by blank lines.
    heads : LIST, default: all
        Such as L3H5,L5: a head, all of layer 5.
    queries : N, default: 200; 60 with --quick
        Queries to fit on; twice as many are held out.
    length : N, at least 2
        Tokens a text is cut to.
    at : N, default: random
        Index of the query, 0 for the first token.
    seed : N, at least 0
        Of every draw.
    quick
        Fewer queries and nulls, Frobenius norm only.
    out : FOLDER
        Folder for results.json and report.html.
    """
    from attsvm.inspection import compare, inspect, load, page

    if out is not None:
        page.check_folder(out)
    known = load(model)
    asked: dict[str, Any] = {"heads": heads, "queries": queries, "quick": quick}
    asked |= {"length": length, "at": at, "seed": seed}
    earlier = None if against is None else load(against)
    found = inspect(known, text, **asked)
    report = found.as_json()
    if earlier is not None:
        report["change"] = compare(earlier, known, text, **asked).as_json()
    report["settings"] = {
        "model": model, "against": against, "text": None if text is None else str(text), **asked,
    }  # fmt: skip
    if out is not None:
        page.write_folder(out, report)
    plain = {key: value for key, value in report.items() if key != "details"}
    emit(plain, json_, *([] if json_ else _shown(found, report, out)))
    if sum(int(record["violations"]) for record in found.records):
        raise typer.Exit(FAILED)


def _shown(found: Inspection, report: dict[str, Any], out: Path | None) -> list[Any]:
    """The table of the attention heads, and sentences on all of them."""
    table = rows(
        _COLUMNS, ([_two(one[name]) for name in _COLUMNS.values()] for one in found.records)
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.counts().items())
    attacks = sum(int(record["attacks"]) for record in found.records)
    broken = sum(int(record["violations"]) for record in found.records)
    first = found.records[0]
    lines = [
        f"{report['model']}: {many(len(found.records), 'attention head')} on "
        f"{many(report['texts'], 'text')}"
    ]
    if first["kind"] is not None:
        lines[0] += f", {first['fitted']} fitted and {first['tested']} held out: {kinds}"
    if report["quick"]:
        lines.append(
            f"quick: kinds, agreements and norm ratios are from {first['fitted']} fitted queries, "
            "too few for most content heads"
        )
    if found.repeated:
        repeated = many(found.repeated, "text")
        lines.append(f"left out as repetitions: {repeated}, whose tokens another one has")
    lines.append(
        f"guarantees attacked {many(attacks, 'time')}, {broken} broken ({report['seconds']:.0f} s)"
    )
    lines.append(max(found.heads, key=lambda head: head.record["sharpness"]).sentence())
    if "change" in report:
        lines.append(f"against {report['change']['before']}:")
        lines += [f"  {what}: {said}" for what, said in report["change"]["facts"].items()]
    return [table, *lines, *([f"page: {out / 'report.html'}"] if out is not None else [])]


def _two(value: Any) -> str:
    """A number in two digits, a word as it is; a dash where it does not apply."""
    if isinstance(value, str):
        return value
    return "–" if not isinstance(value, int | float) or value != value else f"{value:.2g}"

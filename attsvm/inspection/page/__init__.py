"""The page of an inspection: one HTML file that needs nothing else, from results.json alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from attsvm._utils.files import write_json, write_text, writing_to
from attsvm._utils.run_folder import RunFolder
from attsvm._utils.version import __version__
from attsvm.plotting import html
from attsvm.plotting.html.shell import script_json, svg_image

RESULTS, PAGE = "results.json", "report.html"
# What results.json says it is.
KIND = "attsvm inspection 2"

# What a word for a head means.
KINDS = {
    "sink": "attends to a special token such as [CLS] or [SEP], whatever the query",
    "positional": "attends to a place: the query itself, or a fixed distance from it",
    "content": "its choice depends on what the tokens are, beyond any such rule",
    "diffuse": "neither a rule nor a fitted matrix tells its choice on held-out queries",
}


def check_folder(folder: Path) -> None:
    """Raises BadTokens where an inspection cannot be written."""
    RunFolder(folder, "inspection").check_writable()


def write_folder(folder: Path, report: Mapping[str, Any]) -> Path:
    """Write the report and its page; returns the page's file."""
    RunFolder(folder, "inspection").create()
    with writing_to(folder):
        page = render(report)
        write_json(folder / RESULTS, {"kind": KIND, "version": __version__, **report})
        write_text(folder / PAGE, page)
    return folder / PAGE


def render(report: Mapping[str, Any]) -> str:
    """The whole page of a report, as `results.json` has it."""
    records: Sequence[Mapping[str, Any]] = report["heads"]
    counts = {kind: sum(r["kind"] == kind for r in records) for kind in KINDS}
    return html.render(
        "attsvm.inspection.page",
        "inspect.html",
        title=f"attsvm: {len(records)} attention heads of {report['model']}",
        heading=f"What the attention heads of {report['model']} select",
        description=f"{len(records)} attention heads: {counts}",
        skip=("each", "the heads"),
        report=report,
        change=report.get("change"),
        records=records,
        pairs=list(zip(records, report["details"], strict=True)),
        at={(r["layer"], r["head"]): r for r in records},
        counts=counts,
        kinds=KINDS,
        script_json=script_json,
        pictures=_pictures(report),
        share=share,
        number=number,
        version=__version__,
    )


def share(value: object) -> str:
    """A share in per cent; a dash where it does not apply."""
    return "–" if number(value) == "–" else f"{100 * float(value):.3g} %"  # type: ignore[arg-type]


def number(value: object) -> str:
    """A number in three digits; a dash where it does not apply."""
    if not isinstance(value, int | float) or value != value:
        return "–"
    return f"{value:.3g}"


def _pictures(report: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The heading and the image of each picture, by its name; none where nothing was fitted."""
    from attsvm.plotting.networks import agreement_figure, gaps_figure, norm_ratio_figure

    records = report["heads"]
    pairs = [
        (record, details["gaps"])
        for record, details in zip(records, report["details"], strict=True)
        if details["gaps"]
    ]
    if not pairs:
        return {}
    # The sharpest content head whose gaps are known, else the sharpest head.
    content = [pair for pair in pairs if pair[0]["kind"] == "content"]
    record, gaps = max(content or pairs, key=lambda pair: pair[0]["sharpness"])
    drawn = {
        "norm_ratio": ("Sharpness against norm ratio", norm_ratio_figure(records)),
        "gaps": (f"The gaps of {record['name']}", gaps_figure(gaps, record["name"])),
        "agreement": (
            "What predicts the choice of an attention head on held-out queries",
            agreement_figure(records),
        ),
    }
    found = {}
    for name, (title, made) in drawn.items():
        file = StringIO()
        made.savefig(file, format="svg", metadata={"Date": None})
        found[name] = (title, svg_image(file.getvalue(), title))
    return found

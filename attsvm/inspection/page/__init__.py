"""The page of an inspection: one HTML file that needs nothing else, from results.json alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from statistics import median
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
# Measures of the map: field -> its name there; whether a quick run changes what it finds.
MAPPED = {
    "sharpness": ("sharpness", False),
    "saturated": ("share of queries above .9", False),
    "rule_agreement": ("held-out agreement: best rule", True),
    "svm_agreement": ("held-out agreement: max margin", True),
    "lift": ("lift over the rule", True),
    "content_svm_agreement": ("held-out agreement, content keys", True),
    "content_lift": ("lift over the rule, content keys", True),
    "norm_ratio": ("norm ratio", True),
    "norm_ratio_rotated": ("norm ratio of rotated nulls", True),
    "nuclear_norm_ratio": ("norm ratio, nuclear", True),
    "ease": ("ease of the selection", True),
    "evictable": ("keys evictable together", False),
    "cache_evictable": ("keys that no later query needs", False),
    "key_radius": ("stability radius of keys", False),
    "int8_safe": ("choices certified under int8", False),
}
# What changed in training: column of the table -> field, and those in per cent.
CHANGED = {
    "sharpness before": "sharpness_before",
    "after": "sharpness_after",
    "‖ΔW‖/‖W‖": "change_norm",
    "cosine of ΔW": "growth_cosine",
    "other heads, least": "growth_cosine_low",
    "most": "growth_cosine_high",
}
GROWN = {
    "max margin": "growth_svm",
    "mean difference": "growth_mean_difference",
    "ΔW": "growth_change",
    "rule": "growth_rule",
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
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    name = report["model"]
    return html.render(
        "attsvm.inspection.page",
        "inspect.html",
        title=f"attsvm: {len(records)} attention heads of {name}",
        heading=f"What the attention heads of {name} select",
        description=f"{len(records)} attention heads: {said or 'kinds are not known'}",
        skip=("each", "the heads"),
        report=report,
        records=records,
        pairs=list(zip(records, report["details"], strict=True)),
        at={(r["layer"], r["head"]): r for r in records},
        counts=counts,
        kinds=KINDS,
        mapped=MAPPED,
        measures=script_json({r["name"]: {k: r.get(k) for k in MAPPED} for r in records}),
        pictures=_pictures(report),
        share=share,
        number=number,
        changed=CHANGED,
        grown=GROWN,
        change=report.get("change"),
        change_facts=change_facts(report["change"]) if report.get("change") else {},
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


def change_facts(change: Mapping[str, Any]) -> dict[str, str]:
    """What is said of a change as a whole, in words."""
    heads = change["heads"]
    sharper = sum(1 for row in heads if row["sharpened"] > 0)
    beyond = [
        row["growth_cosine"] > row["growth_cosine_high"]
        for row in heads
        if row["growth_cosine"] is not None and row["growth_cosine_high"] is not None
    ]

    def middle(field: str) -> float:
        known = [row[field] for row in heads if row[field] is not None]
        return median(known) if known else float("nan")

    found = {
        "Attention heads that sharpened": f"{sharper} of {len(heads)}",
        "Rank correlation of sharpness and cosine to the max-margin matrix, over all": number(
            change["rank_correlation"]
        ),
        "Held-out tokens whose attention grew, found by (medians over attention heads)": ", ".join(
            f"{name} {share(middle(field))}" for name, field in GROWN.items()
        ),
    }
    if beyond:
        found["ΔW nearer to the max-margin matrix of the grown tokens than that of all others"] = (
            f"{sum(beyond)} of {len(beyond)} attention heads"
        )
    return found


def _pictures(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Title, image and caption of each picture; none where nothing was fitted."""
    from attsvm.plotting.networks import agreement_figure, gaps_figure, norm_ratio_figure

    records = report["heads"]
    if not any(record["kind"] for record in records):
        return []
    fitted = any(record["soft_cross_entropy_agreement"] is not None for record in records)
    soft = " The soft cross-entropy fit sees the whole attention, not the choice alone: a ceiling."
    drawn = [
        (
            "Sharpness against norm ratio",
            norm_ratio_figure(records),
            "The norm ratio is the least norm that keeps at least the top-two gap of the attention "
            "head on every query, over its norm: it rises with the number of queries. A grey bar "
            "is the range of attention heads with the same spectrum and subspaces, rotated inside.",
        ),
        (
            "What predicts the choice of an attention head on held-out queries",
            agreement_figure(records),
            "Bars are means over attention heads, lines hold 10 to 90 % of them."
            + (soft if fitted else ""),
        ),
    ]
    # The sharpest content head whose gaps are known, else the sharpest head.
    pairs = [
        (record, details["gaps"])
        for record, details in zip(records, report["details"], strict=True)
        if details["gaps"]
    ]
    content = [pair for pair in pairs if pair[0]["kind"] == "content"]
    if pairs:
        record, gaps = max(content or pairs, key=lambda pair: pair[0]["sharpness"])
        least = f"The least gap of the attention head is {number(gaps['head'][0])}"
        best = (
            f"; a matrix of the same norm could keep every gap at {number(gaps['best'][0])} or more"
            if gaps["best"]
            else "; no matrix was found that keeps all of them apart"
        )
        caption = f"On {gaps['queries']} queries, at norm 1. {least}{best}."
        picture = gaps_figure(gaps, record["name"])
        drawn.insert(1, (f"The gaps of {record['name']}", picture, caption))
    found = []
    for title, made, caption in drawn:
        file = StringIO()
        made.savefig(file, format="svg", metadata={"Date": None})
        found.append((title, svg_image(file.getvalue(), title), caption))
    return found

"""What training changed, on the page: in a few lines, and head by head."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from attsvm.inspection.page.head import number, share
from attsvm.plotting.html.shell import text

# Column of the table -> the field of a head's row.
_COLUMNS = {
    "sharpness before": "sharpness_before",
    "after": "sharpness_after",
    "‖ΔW‖/‖W‖": "change_norm",
    "cosine of ΔW": "growth_cosine",
    "other heads, least": "growth_cosine_low",
    "most": "growth_cosine_high",
}
# The same, in per cent.
_SHARES = {
    "max margin": "growth_svm",
    "mean difference": "growth_mean_difference",
    "ΔW": "growth_change",
    "rule": "growth_rule",
}


def change_facts(change: Mapping[str, Any]) -> dict[str, str]:
    """What is said of a change as a whole, in words."""
    heads = change["heads"]
    sharper = sum(1 for row in heads if row["sharpened"] > 0)
    beyond = [
        row["growth_cosine"] > row["growth_cosine_high"]
        for row in heads
        if row["growth_cosine"] is not None and row["growth_cosine_high"] is not None
    ]
    found = {
        "Attention heads that sharpened": f"{sharper} of {len(heads)}",
        "Rank correlation of sharpness and cosine to the max-margin matrix, over all": number(
            change["rank_correlation"]
        ),
        "Held-out tokens whose attention grew, found by (medians over attention heads)": ", ".join(
            f"{name} {share(_middle(heads, field))}" for name, field in _SHARES.items()
        ),
    }
    if beyond:
        found["ΔW nearer to the max-margin matrix of the grown tokens than that of all others"] = (
            f"{sum(beyond)} of {len(beyond)} attention heads"
        )
    return found


def _middle(heads: list[Mapping[str, Any]], field: str) -> float:
    known = [row[field] for row in heads if row[field] is not None]
    return median(known) if known else float("nan")


def change_section(change: Mapping[str, Any]) -> str:
    """The part of the page on what changed from an earlier checkpoint."""
    facts = "".join(
        f"<dt>{text(what)}</dt><dd>{text(said)}</dd>" for what, said in change_facts(change).items()
    )
    top = "".join(
        f'<th scope="col" class="number">{text(name)}</th>' for name in (*_COLUMNS, *_SHARES)
    )
    lines = []
    for row in change["heads"]:
        values = [number(row[field]) for field in _COLUMNS.values()]
        values += [share(row[field]) for field in _SHARES.values()]
        cells = "".join(f'<td class="number">{value}</td>' for value in values)
        name = f"{row['layer']}.{row['head']}"
        lines.append(
            f'<tr><th scope="row"><a href="#l{row["layer"]}h{row["head"]}">{name}</a></th>'
            f"{cells}</tr>"
        )
    return f"""<section aria-labelledby="change">
<h2 id="change">Against {text(change["before"])}</h2>
<dl class="facts">{facts}</dl>
<details><summary>Every head: max margin, mean difference, ΔW and rule are the shares of held-out \
tokens with the most growth that each finds</summary>
<div class="scroll"><table><thead><tr><th scope="col">Head</th>{top}</tr></thead>
<tbody>{"".join(lines)}</tbody></table></div></details></section>"""

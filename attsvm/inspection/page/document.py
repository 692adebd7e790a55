"""The page of an inspection: one HTML file that needs nothing else, from results.json alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from attsvm._utils.version import __version__
from attsvm.inspection.page.change import change_section
from attsvm.inspection.page.head import KINDS, article, badge, head_name, number, share
from attsvm.plotting.html.shell import Parts, script_json, svg_image, text, whole_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Measures of the map: field -> its name there.
MAPPED = {
    "sharpness": "sharpness",
    "saturated": "share of queries above .9",
    "rule_agreement": "held-out agreement: best rule",
    "svm_agreement": "held-out agreement: max margin",
    "lift": "lift over the rule",
    "content_svm_agreement": "held-out agreement, content keys",
    "content_lift": "lift over the rule, content keys",
    "economy": "norm economy",
    "economy_rotated": "norm economy of rotated nulls",
    "nuclear_economy": "norm economy, nuclear",
    "ease": "ease of the selection",
    "evictable": "keys evictable together",
    "key_radius": "stability radius of keys",
    "int8_safe": "choices certified under int8",
}
_HERE = "attsvm.inspection.page"


def render(report: Mapping[str, Any]) -> str:
    """The whole page of a report, as `results.json` has it."""
    records: Sequence[Mapping[str, Any]] = report["heads"]
    pairs = zip(records, report["details"], strict=True)
    heads = "\n".join(article(record, details) for record, details in pairs)
    counts = Counter(str(r["kind"]) for r in records)
    said = ", ".join(f"{counts[k]} {k}" for k in KINDS if counts[k])
    main = "\n".join(
        [
            _summary(report, counts),
            _map(records),
            _pictures(report),
            change_section(report["change"]) if report.get("change") else "",
            _table(records),
            f'<section aria-labelledby="each"><h2 id="each">Each attention head</h2>\n'
            '<p class="hint">Tokens are shaded by the attention on them. <span class="tok asks">'
            'query</span> <span class="tok chosen" style="--a:.6">chosen</span> <span class="tok '
            'drops">may be dropped</span>: all keys so marked may go together, their attention '
            "shared among the others; of some of them alone nothing is said.</p>\n"
            f"{heads}</section>",
        ]
    )
    name = report["model"]
    return whole_page(
        Parts(
            title=f"attsvm: {len(records)} attention heads of {name}",
            heading=f"What the attention heads of {name} select",
            description=f"{len(records)} attention heads: {said}",
            main=main,
            footer="<p>Selections are the largest attention of each attention head, so that any "
            "fit to them resembles W: read every number beside its nulls. No attention head is "
            f"said to be the max-margin solution. Written by attsvm {text(__version__)}: "
            f"<code>attsvm inspect {text(name)}</code></p>",
            skip=("each", "the heads"),
            assets=[(_HERE, "style.css"), (_HERE, "map.js")],
        )
    )


def _summary(report: Mapping[str, Any], counts: Counter[str]) -> str:
    about, first = report["about"], report["heads"][0]
    tiles = "".join(
        f'<li class="{k}"><button type="button" data-set-kind="{k}"><b>{counts[k]}</b> '
        f"<span>{k}</span></button></li>"
        for k in KINDS
    )
    meaning = "".join(f"<dt>{badge(k)}</dt><dd>{text(words)}</dd>" for k, words in KINDS.items())
    records = report["heads"]
    attacks = sum(int(r["attacks"]) for r in records if number(r["attacks"]) != "–")
    broken = sum(int(r["violations"]) for r in records if number(r["violations"]) != "–")
    return f"""<section aria-labelledby="summary"><h2 id="summary" class="aside">Summary</h2>
<p class="lead">{text(report["model"])} ({text(about["family"])}, {about["layers"]} layers × \
{about["heads"]} heads of width {about["width"]}) on {report["texts"]} texts: one query from each, \
{first["fitted"]} to fit on and {first["tested"]} held out.</p>
<ul class="tiles four">{tiles}</ul>
<p class="meta">{len(records)} attention heads · {report["seconds"]:.0f} s · \
guarantees attacked {attacks:,} times, {broken} broken</p>
<dl class="meaning">{meaning}</dl>
</section>"""


def _map(records: Sequence[Mapping[str, Any]]) -> str:
    """Layers × heads, coloured by a measure that a switch chooses."""
    layers = sorted({int(r["layer"]) for r in records})
    heads = sorted({int(r["head"]) for r in records})
    known = {(int(r["layer"]), int(r["head"])): r for r in records}
    lines = []
    for layer in layers:
        cells = []
        for head in heads:
            record = known.get((layer, head))
            if record is None:
                cells.append("<td></td>")
                continue
            name = head_name(record)
            cells.append(
                f'<td data-head="{name}" data-kind="{text(record["kind"])}">'
                f'<a href="#{name}" title="layer {layer}, attention head {head}: '
                f'{text(record["kind"])}">'
                f"{number(record['sharpness'])}</a></td>"
            )
        lines.append(f'<tr><th scope="row">layer {layer}</th>{"".join(cells)}</tr>')
    names = "".join(f'<th scope="col">{head}</th>' for head in heads)
    options = "".join(f'<option value="{k}">{text(v)}</option>' for k, v in MAPPED.items())
    data = {head_name(r): {k: r.get(k) for k in MAPPED} for r in records}
    return f"""<section aria-labelledby="map"><h2 id="map">Layers × heads</h2>
<p class="control"><label>Measure <select id="measure">{options}</select></label> \
<span id="range" role="status"></span></p>
<div class="scroll"><table class="map"><thead><tr><td></td>{names}</tr></thead>
<tbody>{"".join(lines)}</tbody></table></div>
<script type="application/json" id="measures">{script_json(data)}</script>
</section>"""


def _pictures(report: Mapping[str, Any]) -> str:
    from attsvm.plotting.networks import agreement_figure, economy_figure, gaps_figure

    records = report["heads"]
    fitted = any(record["soft_cross_entropy_agreement"] is not None for record in records)
    soft = " The soft cross-entropy fit sees the whole attention, not the choice alone: a ceiling."
    soft = soft if fitted else ""
    drawn: list[tuple[str, Figure, str]] = [
        (
            "Sharpness against norm economy",
            economy_figure(records),
            "Economy is the least norm that keeps at least the top-two gap of the attention head "
            "on every query, over its norm: it rises with the number of queries. A grey bar is the "
            "range of attention heads with the same spectrum and subspaces, rotated inside.",
        ),
        (
            "What predicts the choice of an attention head on held-out queries",
            agreement_figure(records),
            "Bars are means over attention heads, lines hold 10 to 90 % of them." + soft,
        ),
    ]
    if shown := _shown_head(report):
        record, gaps = shown
        name = f"layer {record['layer']}, attention head {record['head']}"
        drawn.insert(
            1,
            (
                f"The gaps of {name}",
                gaps_figure(gaps, name),
                f"On {gaps['queries']} queries, at norm 1. {_least(gaps)}",
            ),
        )
    figures = []
    for title, made, caption in drawn:
        file = StringIO()
        made.savefig(file, format="svg", metadata={"Date": None})
        figures.append(
            f'<figure class="figure"><h3>{text(title)}</h3>'
            f'<div class="scroll">{svg_image(file.getvalue(), title)}</div>'
            f"<figcaption>{text(caption)}</figcaption></figure>"
        )
    return (
        '<section aria-labelledby="pictures"><h2 id="pictures">Pictures</h2>\n'
        f'<div class="pictures">{"".join(figures)}</div></section>'
    )


def _least(gaps: Mapping[str, Any]) -> str:
    """The least gap of a head beside the best one, in words."""
    least = f"The least gap of the attention head is {number(gaps['head'][0])}"
    if not gaps["best"]:
        return f"{least}; no matrix was found that keeps all of them apart."
    low = gaps["best"][0]
    return f"{least}; a matrix of the same norm could keep every gap at {number(low)} or more."


def _shown_head(report: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """The sharpest content head whose gaps are known, else the sharpest head; and its gaps."""
    pairs = [
        (record, details["gaps"])
        for record, details in zip(report["heads"], report["details"], strict=True)
        if details["gaps"]
    ]
    content = [pair for pair in pairs if pair[0]["kind"] == "content"]
    return max(content or pairs, key=lambda pair: pair[0]["sharpness"], default=None)


def _table(records: Sequence[Mapping[str, Any]]) -> str:
    """Every head in one line."""
    columns = {
        "sharpness": "sharpness",
        "rule_agreement": "rule",
        "svm_agreement": "max margin",
        "content_svm_agreement": "content",
        "economy": "economy",
        "economy_rotated": "rotated",
        "evictable": "evictable together",
        "key_radius": "radius",
        "int8_safe": "int8",
    }
    top = "".join(f'<th scope="col" class="number">{name}</th>' for name in columns.values())
    lines = []
    for r in records:
        values = [number(r["sharpness"]), *(share(r.get(f)) for f in list(columns)[1:])]
        cells = "".join(f'<td class="number">{value}</td>' for value in values)
        name = head_name(r)
        lines.append(
            f'<tr data-head="{name}" data-kind="{text(r["kind"])}"><th scope="row">'
            f'<a href="#{name}">{r["layer"]}.{r["head"]}</a></th>'
            f"<td>{badge(r['kind'])}</td>{cells}</tr>"
        )
    return f"""<section aria-labelledby="table"><h2 id="table">Heads</h2>
<p class="control"><span id="count" role="status">{len(records)} attention heads</span></p>
<div class="scroll"><table class="heads"><thead><tr><th scope="col">Head</th>\
<th scope="col">Kind</th>{top}</tr></thead>
<tbody>
{chr(10).join(lines)}
</tbody></table></div></section>"""

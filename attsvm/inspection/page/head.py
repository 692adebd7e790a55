"""One head on the page: its numbers, and sample texts whose tokens are shaded by attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attsvm.plotting.html.shell import text

Record = Mapping[str, Any]

# What a word for a head means.
KINDS = {
    "sink": "attends to a special token such as [CLS] or [SEP], whatever the query",
    "positional": "attends to a place: the query itself, or a fixed distance from it",
    "content": "its choice depends on what the tokens are, beyond any such rule",
    "diffuse": "neither a rule nor a fitted matrix tells its choice on held-out queries",
}


def head_name(record: Record) -> str:
    """The id of a head on the page."""
    return f"l{record['layer']}h{record['head']}"


def badge(kind: object) -> str:
    """The kind of a head as a coloured word."""
    known = kind if kind in KINDS else "diffuse"
    return f'<span class="badge {known}">{text(kind)}</span>'


def share(value: object) -> str:
    """A share in per cent; a dash where it does not apply."""
    if not isinstance(value, int | float) or value != value:
        return "–"
    return f"{100 * value:.3g} %"


def number(value: object) -> str:
    """A number in three digits; a dash where it does not apply."""
    if not isinstance(value, int | float) or value != value:
        return "–"
    return f"{value:.3g}"


def article(record: Record, details: Record) -> str:
    """A head's part of the page: its record, and its details of `attsvm.inspection.details`."""
    name = f"Layer {record['layer']}, attention head {record['head']}"
    facts = "".join(f"<dt>{what}</dt><dd>{said}</dd>" for what, said in _facts(record) if said)
    shown = "\n".join(_sample(one) for one in details["samples"])
    if _rotary(record):
        shown += _offsets(details["offsets"])
    return f"""<article class="head" id="{head_name(record)}" data-kind="{text(record["kind"])}">
<header><h3>{name}</h3><p class="verdict">{badge(record["kind"])}</p></header>
<p class="reason">{_sentence(record)}</p>
<dl class="facts">{facts}</dl>
{shown}
</article>"""


def _rotary(record: Record) -> bool:
    """Whether the head has no single W, whose norm would be known."""
    return number(record.get("norm")) == "–"


def _sentence(record: Record) -> str:
    """What may be said of a head's economy, and no more."""
    kind = KINDS.get(str(record["kind"]), "")
    said = f"{text(str(record['kind']).capitalize())}: {text(kind)}. " if kind else ""
    if _rotary(record):
        return f"{said}This attention head has rotary positions: it has no single W."
    if number(record.get("economy")) == "–":
        return f"{said}Nothing is said of its norm, as no query has a clear choice."
    return (
        f"{said}{share(record['economy'])} of the norm of this attention head would suffice for "
        f"its choices on these {record['economy_queries']:.0f} queries; for matrices with the same "
        f"spectrum and subspaces {share(record.get('economy_rotated'))}."
    )


def _facts(record: Record) -> list[tuple[str, str]]:
    get = record.get
    rule = f"{text(get('rule'))}: {share(get('rule_agreement'))} of held-out choices"
    content = ""
    if get("content_kind"):
        content = (
            f"{badge(get('content_kind'))} without special keys: rule "
            f"{share(get('content_rule_agreement'))}, max margin "
            f"{share(get('content_svm_agreement'))}"
        )
    return [
        (
            "Sharpness",
            f"{number(get('sharpness'))} mean largest attention, above .9 in "
            f"{share(get('saturated'))} of queries",
        ),
        ("Best rule", rule),
        (
            "Held out",
            f"max margin {share(get('svm_agreement'))}, mean difference "
            f"{share(get('mean_difference_agreement'))}, mean query "
            f"{share(get('mean_query_agreement'))}; lift over the rule {number(get('lift'))}",
        ),
        ("Content", content),
        (
            "Economy",
            f"Frobenius {share(get('economy'))} (certified), nulls: same spectrum "
            f"{share(get('economy_spectrum'))}, rotated {share(get('economy_rotated'))}; nuclear "
            f"{share(get('nuclear_economy'))}, rotated {share(get('nuclear_economy_rotated'))}",
        ),
        (
            "Guaranteed",
            f"{share(get('evictable'))} of keys may be dropped together at 1 % error of the output "
            f"of the attention head; choices keep while keys move {share(get('key_radius'))} of "
            f"their size, or queries {share(get('query_radius'))} (medians); int8 keeps "
            f"{share(get('int8_safe'))} of choices for sure, "
            f"{share(get('int8_same'))} in fact",
        ),
        ("Optimality", _optimality(record)),
        (
            "Attacked",
            f"{get('attacks')} times, {get('violations')} succeeded"
            if number(get("attacks")) != "–"
            else "",
        ),
    ]


def _optimality(record: Record) -> str:
    """Whether the choices are locally optimal for the head's own scores; nothing where unasked."""
    kind = record.get("optimality")
    if kind is None or number(record.get("optimality_queries")) == "–":
        return ""
    tight = number(record.get("tight_margins"))
    return (
        f"{text(kind)} on {record['optimality_queries']:.0f} queries, tokens scored by their value "
        f"along the mean output of the attention head; {tight} tight margins, "
        f"{number(record.get('undecided_margins'))} undecided"
    )


def _sample(one: Record) -> str:
    """One text: every token shaded by the attention on it, the query and the choice marked."""
    drop = set(one["evictable"])
    keys = sum(one["valid"])
    words = []
    for place, (word, weight) in enumerate(zip(one["tokens"], one["attention"], strict=True)):
        marks = [
            name
            for name, on in (
                ("asks", place == one["position"]),
                ("chosen", place == one["chosen"]),
                ("drops", place in drop),
                ("unseen", not one["valid"][place]),
            )
            if on
        ]
        title = f"{100 * weight:.2f} % of the attention"
        if "drops" in marks:
            title += "; may be dropped, with all others so marked"
        strength = f"--a:{min(max(weight, 0.0), 1.0):.3f}"
        words.append(
            f'<span class="{" ".join(["tok", *marks])}" style="{strength}" title="{title}">'
            f"{text(word)}</span>"
        )
    radius = (
        "two top logits cannot be separated: nothing is guaranteed"
        if not one["key_radius"] > 0
        else f"choice certified while every key moves less than {share(one['key_radius'])} of its "
        f"size, or the query less than {share(one['query_radius'])}; {len(drop)} of "
        f"{keys} keys may be dropped together at 1 % error; int8 "
        + ("is certified to keep it" if one["int8_safe"] else "may change it")
    )
    return (
        f'<figure class="sample"><p class="text">{" ".join(words)}</p>'
        f"<figcaption>{text(radius)}</figcaption></figure>"
    )


def _offsets(found: Record) -> str:
    """Margins by offset of the key from the query, for a head without a single W."""
    names = ("offset", "chosen", "attention", "margin")
    top = "".join(f'<th scope="col" class="number">{name}</th>' for name in names)
    lines = []
    for offset, chosen, weight, margin in zip(*(found[name] for name in names), strict=True):
        values = (f"{offset:+d}", share(chosen), share(weight), number(margin))
        cells = "".join(f'<td class="number">{value}</td>' for value in values)
        lines.append(f"<tr>{cells}</tr>")
    return (
        f'<div class="scroll"><table class="offsets"><thead><tr>{top}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )

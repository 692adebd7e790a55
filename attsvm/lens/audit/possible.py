"""Figures of a head that can be: shares that are so many of so many queries, bounds in order.

Each line is a fact of what the figures mean (`attsvm.lens.FIELDS`), whatever the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf, sqrt
from typing import Any

from attsvm.lens.audit.row import Check

Row = Mapping[str, Any]
# Rounding of the figures themselves.
EPS = 1e-9

_AGREEMENTS = (
    "rule_agreement",
    "mean_query_agreement",
    "svm_agreement",
    "mean_difference_agreement",
    "cross_entropy_agreement",
    "soft_cross_entropy_agreement",
)
# Shares of all queries.
_OF_QUERIES = (
    "saturated",
    "evictable_queries",
    "key_radius_share",
    "query_radius_share",
    "int8_safe",
    "int8_same",
)


def figure_checks(report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the figures of every head are possible."""
    for row in report["heads"]:
        who = f"layer {row['layer']}, head {row['head']}"
        for fine, said in _head_checks(row, report):
            yield fine, f"{who}: {said}"


def _head_checks(row: Row, report: Mapping[str, Any]) -> Iterator[Check]:
    yield from _counts(row, report)
    yield from _sharpness(row)
    yield from _agreements(row, report["plan"])
    yield from _kinds(row)
    yield from _economies(row, report)
    yield from _guarantees(row, report)
    yield from _optimality(row, report)


def halves(n: int, plan: Mapping[str, Any]) -> tuple[int, int]:
    """How many of n queries are fitted on and held out: a third is fitted where they are few."""
    fit, test = plan["fit"], plan["test"]
    if n >= fit + test:
        return fit, test
    cut = min(fit, max(1, n // 3))
    return cut, min(test, n - cut)


def is_share(value: float, of: int) -> bool:
    """Whether this is a whole number of so many."""
    return 0 <= value <= 1 and abs(value * of - round(value * of)) <= EPS * max(of, 1)


def ordered(*values: float | None) -> bool:
    """Whether these rise, those that are known."""
    known = [value for value in values if value is not None]
    return all(a <= b + EPS * max(abs(a), abs(b)) for a, b in pairwise(known))


def _counts(row: Row, report: Mapping[str, Any]) -> Iterator[Check]:
    n = row["queries"]
    yield 3 <= n <= report["texts"], f"{n} queries of {report['texts']} texts"
    given = (row["fitted"], row["tested"])
    due = halves(n, report["plan"])
    yield given == due, f"{given[0]} fitted and {given[1]} held out, where {n} queries give {due}"
    length = report["settings"]["length"]
    yield ordered(2, row["keys"], length), f"{row['keys']} keys per query"
    yield row["content_queries"] <= n, "more queries without special keys than there are"
    yield row["tied"] <= n, "more ties than queries"


def _sharpness(row: Row) -> Iterator[Check]:
    sharp, full = row["sharpness"], row["saturated"]
    known = all(row[name] is not None for name in ("sharpness", "saturated", "chance", "keys"))
    yield known, "its sharpness is not known"
    if not known:
        return
    yield ordered(1 / row["keys"], row["chance"], 0.5), f"chance {row['chance']}"
    yield ordered(row["chance"], sharp, 1), f"sharpness {sharp}"
    yield (
        ordered(0.9 * full, sharp, full + 0.9 * (1 - full)),
        f"sharpness {sharp} with a share of {full} above 0.9",
    )
    yield ordered(0, row["special_attention"], 1), f"special_attention {row['special_attention']}"
    yield ordered(0, row["content_sharpness"], 1), f"content_sharpness {row['content_sharpness']}"


def _agreements(row: Row, plan: Mapping[str, Any]) -> Iterator[Check]:
    tested = {"": row["tested"], "content_": halves(row["content_queries"], plan)[1]}
    for prefix, of in tested.items():
        for name in _AGREEMENTS:
            value = row[prefix + name]
            yield (
                value is None or is_share(value, of),
                f"{prefix}{name} {value} is no share of {of} held-out queries",
            )
            crossed = "cross_entropy" in name
            yield (
                not crossed or plan["cross"] or value is None,
                f"{prefix}{name} is told, and the plan leaves it out",
            )
        svm, rule, lift = (
            row[prefix + name] for name in ("svm_agreement", "rule_agreement", "lift")
        )
        if svm is None or rule is None:
            yield lift is None, f"{prefix}lift is told without what it is made of"
        else:
            yield (
                lift is not None and abs(svm - rule - lift) <= EPS,
                f"{prefix}lift {lift}: SVM less rule give {svm - rule}",
            )
        cosine = row[f"{prefix}cosine"]
        yield ordered(-1, cosine, 1), f"{prefix}cosine {cosine}"
        place = row[f"{prefix}rule_place"]
        yield place in ("sink", "positional", None), f"{prefix}rule_place {place}"
    for name in _OF_QUERIES:
        value = row[name]
        yield (
            value is not None and is_share(value, row["queries"]),
            f"{name} {value} is no share of {row['queries']} queries",
        )


def _kinds(row: Row) -> Iterator[Check]:
    """A kind must follow from the agreements; ties, which no row tells in full, make it diffuse."""
    rest = "content_" if row["content_kind"] is not None else ""

    def learned(prefix: str) -> bool:
        svm, lift = row[f"{prefix}svm_agreement"], row[f"{prefix}lift"]
        return svm is not None and lift is not None and svm >= 0.5 and lift >= 0.1

    def ruled(prefix: str) -> bool:
        value = row[f"{prefix}rule_agreement"]
        return value is not None and value >= 0.5

    if learned("") and learned(rest):
        due = "content"
    elif ruled(""):
        due = row["rule_place"]
    else:
        own = ruled(rest) and row[f"{rest}rule_place"] == "positional"
        due = "positional" if own else "diffuse"
    tied = row["kind"] == "diffuse" and 2 * row["tied"] >= row["tested"]
    yield row["kind"] == due or tied, f"its kind is {row['kind']} and its agreements make it {due}"
    alone = row["content_kind"]
    if alone in (None, "diffuse"):
        return
    if learned("content_"):
        due = "content"
    else:
        due = row["content_rule_place"] if ruled("content_") else "diffuse"
    yield alone == due, f"its content_kind is {alone} and its agreements make it {due}"


def _economies(row: Row, report: Mapping[str, Any]) -> Iterator[Check]:
    width = sqrt(report["about"]["width"])
    norm, nuclear = row["norm"], row["nuclear_norm"]
    if norm is not None:
        yield ordered(0, norm, nuclear, width * norm), f"norm {norm}, nuclear_norm {nuclear}"
    for name in ("economy", "nuclear_economy"):
        bounds = (row[f"{name}_lower"], row[name])
        seen = row["economy_seen"] if name == "economy" else None
        yield ordered(0, *bounds, seen, 1), f"{name} {bounds[1]}, {bounds[0]} at least: no shares"
    for null in ("spectrum", "rotated"):
        band = [row[f"economy_{null}{end}"] for end in ("_low", "", "_high")]
        yield ordered(0, *band, 1), f"economy_{null} {band}"
        yield ordered(0, row[f"nuclear_economy_{null}"], 1), f"nuclear_economy_{null}"
    queries = row["economy_queries"]
    yield ordered(0, queries, row["fitted"]), f"economy_queries {queries}"
    told = row["nuclear_economy"] is not None
    yield not told or report["plan"]["nuclear_draws"] >= 0, "nuclear_economy was not asked for"


def _guarantees(row: Row, report: Mapping[str, Any]) -> Iterator[Check]:
    n, get = row["queries"], row.get
    yield row["violations"] == 0, f"{row['violations']} violations: a guarantee was broken"
    # Dropped twice, all keys moved twice, the query moved towards each rival and at random, int8.
    each = 5 + (report["settings"]["length"] or inf)
    attacked = min(report["plan"]["attacks"], n)
    most = attacked * each if attacked else 0
    yield 0 <= row["attacks"] <= most, f"{row['attacks']} attacks"
    yield (
        ordered(0, get("evictable_margins"), get("evictable"), get("evictable_queries"), 1),
        f"evictable {get('evictable')}, by margins {get('evictable_margins')}, in "
        f"{get('evictable_queries')} of queries",
    )
    sure = 1 - row["tied"] / n
    yield (
        ordered(get("int8_safe"), get("int8_same"), 1) and ordered(get("int8_safe"), sure),
        f"int8_safe {get('int8_safe')}, int8_same {get('int8_same')}",
    )
    for name in ("key_radius", "query_radius"):
        middle, share = get(name), get(f"{name}_share")
        yield ordered(0, middle), f"{name} {middle}"
        yield ordered(share, sure), f"{name}_share {share} counts ties"
        if middle is not None and share is not None and abs(share - 0.5) > 1 / n:
            yield (
                (middle > 0.01) == (share > 0.5),
                f"the median {name} is {middle} and {share} of them are above 0.01",
            )


def _optimality(row: Row, report: Mapping[str, Any]) -> Iterator[Check]:
    asked = row["optimality_queries"] or 0
    yield (
        asked <= min(report["plan"]["optimality"], row["fitted"]),
        f"optimality of {asked} queries",
    )
    yield (
        row["optimality"] in (None, "global", "local", "neither", "undecided", "infeasible"),
        f"optimality is {row['optimality']}",
    )
    margins = [row[f"{word}_margins"] or 0 for word in ("tight", "loose", "undecided")]
    length = report["settings"]["length"] or inf
    yield (
        min(margins) >= 0 and sum(margins) <= asked * (length - 1),
        f"{sum(margins)} margins of {asked} queries",
    )
    yield ordered(0, row["tight_lower"], 1), f"tight_lower {row['tight_lower']}"

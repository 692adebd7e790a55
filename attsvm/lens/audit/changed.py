"""What a change says of itself: rows beside those of the inspection, and its one correlation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attsvm.lens.audit.possible import EPS, is_share, ordered
from attsvm.lens.audit.row import Check

_GROWTH = ("growth_svm", "growth_mean_difference", "growth_change", "growth_rule")


def change_checks(report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the rows of a change are possible, and its correlation is theirs."""
    change = report["change"]
    rows, heads = change["heads"], report["heads"]
    places = [(row["layer"], row["head"]) for row in rows]
    same = places == [(row["layer"], row["head"]) for row in heads]
    yield same, "change is of other heads than the inspection"
    yield change.get("after") == report["model"], f"change is of {change.get('after')}"
    if not same:
        return
    for row, head in zip(rows, heads, strict=True):
        for fine, said in _row_checks(row, head):
            yield fine, f"change of layer {row['layer']}, head {row['head']}: {said}"
    due, said = _spearman(rows), change.get("rank_correlation")
    yield (
        (due is None) == (said is None) and (due is None or abs(due - said) <= EPS),
        f"rank_correlation is {said} and the rows give {due}",
    )


def _row_checks(row: Mapping[str, Any], head: Mapping[str, Any]) -> Iterator[Check]:
    yield row["queries"] == head["queries"], f"{row['queries']} queries, {head['queries']} before"
    yield (
        row["fitted"] + row["tested"] <= row["grown"] <= row["queries"],
        "its counts do not add up",
    )
    yield (
        row["sharpness_after"] == head["sharpness"]
        and row["saturated_after"] == head["saturated"]
        and row["chance"] == head["chance"],
        f"its sharpness is {row['sharpness_after']}, in the inspection {head['sharpness']}",
    )
    before, after, said = (
        row[name] for name in ("sharpness_before", "sharpness_after", "sharpened")
    )
    known = all(value is not None for value in (before, after, said))
    yield known and abs(after - before - said) <= EPS, f"sharpened {said}"
    yield ordered(row["chance"], before, 1), f"sharpness_before {before}"
    for name in _GROWTH:
        value = row[name]
        yield (
            value is None or is_share(value, row["tested"]),
            f"{name} {value} is no share of {row['tested']} held-out queries",
        )
    for name in ("cosine_before", "cosine_after", "growth_cosine"):
        yield ordered(-1, row[name], 1), f"{name} {row[name]}"
    band = (row["growth_cosine_low"], row["growth_cosine_high"])
    yield ordered(-1, *band, 1), f"the other heads' cosines lie between {band[0]} and {band[1]}"
    yield ordered(0, row["change_norm"]), f"change_norm {row['change_norm']}"


def _spearman(rows: list[Mapping[str, Any]]) -> float | None:
    """The rank correlation of sharpness and cosine after training, by SciPy; None where none is."""
    from scipy.stats import spearmanr

    names = ("sharpness_after", "cosine_after")
    known = [row for row in rows if all(row[name] is not None for name in names)]
    first, second = ([float(row[name]) for row in known] for name in names)
    if len(known) < 3 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(spearmanr(first, second).statistic)

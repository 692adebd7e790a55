"""What results.json says of itself, checked without a model: its form, its sums, its figures.

None of this shares code with what made the file: counts and correlations are computed another way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attsvm.errors import AttsvmError
from attsvm.lens.audit.changed import change_checks
from attsvm.lens.audit.possible import figure_checks
from attsvm.lens.audit.row import Check, Row, row_of
from attsvm.lens.audit.shown import shown_checks
from attsvm.lens.change import CHANGE_FIELDS
from attsvm.lens.measure.kinds import THRESHOLDS
from attsvm.lens.plan import Plan
from attsvm.lens.record import FIELDS

KINDS = ("sink", "positional", "content", "diffuse")
# What a field must be unless it is a number or, where it does not apply, None.
_WORDS = {"rule", "rule_place", "kind", "optimality", "growth_rule_name"}
_SETTINGS = {"model", "against", "text", "layers", "heads", "length", "at"}


def own_doubts(report: Mapping[str, Any]) -> list[Row]:
    """What the file says of itself; its form alone where that is not one that is written."""
    form = _checked("its form", form_checks, report)
    if not form.agrees:
        return [form]
    rows = [
        form,
        _checked("its sums over heads", sum_checks, report),
        _checked("its figures, which must be possible", figure_checks, report),
        _checked("its samples, gaps and offsets", shown_checks, report),
    ]
    if report.get("change"):
        rows.append(_checked("what changed, summed up", change_checks, report))
    return rows


def _checked(what: str, checks: Callable[[Mapping[str, Any]], Iterator[Check]], report: Any) -> Row:
    """The Row of these checks; one doubt where the file holds what no inspection writes."""
    try:
        return row_of(what, checks(report))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return Row(what, 1, (f"it holds what no inspection writes ({type(error).__name__})",))


def form_checks(report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether every part is there, and is of the kind of thing that it must be."""
    settings, plan, about = (report.get(name) for name in ("settings", "plan", "about"))
    if not isinstance(settings, dict) or set(settings) != _SETTINGS:
        yield False, "it does not say how it was made (settings): inspect again to have it audited"
        return
    numbers = (settings["layers"], settings["heads"])
    yield (
        all(given is None or _whole_numbers(given) for given in numbers)
        and all(settings[name] is None or _count(settings[name]) for name in ("length",))
        and (settings["at"] is None or isinstance(settings["at"], int))
        and all(isinstance(settings[name], str | None) for name in ("model", "against", "text")),
        "its settings are not such as are written",
    )
    yield _is_plan(plan), "its plan is none"
    yield report.get("thresholds") == THRESHOLDS, "its thresholds are not those of the kinds"
    yield report.get("fields") == FIELDS, "its columns are not those of this version"
    sizes = ("layers", "heads", "width", "features")
    yield (
        isinstance(about, dict) and all(_count(about.get(name)) for name in sizes),
        "about does not say the sizes of the model",
    )
    yield isinstance(report.get("sources"), dict), "it has no digests of what it read (sources)"
    yield isinstance(report.get("model"), str), "it does not name its model"
    yield _count(report.get("texts")), "texts is no count"
    yield _count(report.get("repeated"), least=0), "repeated is no count"
    yield from _rows_are_rows(report.get("heads"), FIELDS, "heads")
    details = report.get("details")
    yield (
        isinstance(details, list) and all(isinstance(one, dict) for one in details),
        "details is no list of what pages show",
    )
    change = report.get("change")
    yield (change is None) == (settings["against"] is None), "change and --against do not go along"
    if change is not None:
        yield (
            isinstance(change, dict) and change.get("plan") == plan,
            "change has another plan than the inspection",
        )
        heads = change.get("heads") if isinstance(change, dict) else None
        yield from _rows_are_rows(heads, CHANGE_FIELDS, "change.heads")


def sum_checks(report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether what is summed up is what the rows give, and every head asked for is there once."""
    heads = report["heads"]
    for name, field in (("kinds", "kind"), ("content_kinds", "content_kind")):
        counted = Counter(row[field] for row in heads if row[field] is not None)
        said = report.get(name)
        yield (
            isinstance(said, dict) and {k: n for k, n in said.items() if n} == dict(counted),
            f"{name} is {said} and the rows give {dict(counted)}",
        )
        yield (
            set(counted) <= set(KINDS),
            f"{field} is {', '.join(map(str, counted))}: there are only {', '.join(KINDS)}",
        )
    settings, about = report["settings"], report["about"]
    wanted = [
        sorted(set(range(about[name]) if settings[name] is None else settings[name]))
        for name in ("layers", "heads")
    ]
    places = [(row["layer"], row["head"]) for row in heads]
    yield (
        places == [(layer, head) for layer in wanted[0] for head in wanted[1]],
        f"its {len(places)} rows are not the {len(wanted[0])} layers × {len(wanted[1])} heads that "
        "were asked for, in order",
    )
    shown = [(one.get("layer"), one.get("head")) for one in report["details"]]
    yield shown == places, "details is of other heads than the rows"
    broken = sum(row["violations"] for row in heads)
    yield broken == 0, f"{broken} attacks on guarantees succeeded: none may"
    yield (
        report["texts"] <= report["plan"]["fit"] + report["plan"]["test"],
        f"{report['texts']} texts are more than the plan asks for",
    )
    rotary = all(row["norm"] is None for row in heads)
    yield report.get("rotary") is rotary, f"rotary is {report.get('rotary')}: the rows say not so"


def _rows_are_rows(rows: Any, fields: Mapping[str, str], name: str) -> Iterator[Check]:
    whole = isinstance(rows, list) and bool(rows) and all(isinstance(row, dict) for row in rows)
    yield whole, f"{name} is no list of rows"
    if not whole:
        return
    for row in rows:
        who = f"{name}: layer {row.get('layer')}, head {row.get('head')}"
        yield set(row) == set(fields), f"{who} lacks fields, or has others"
        for field, value in row.items():
            bare = field.removeprefix("content_")
            if bare in _WORDS:
                fine = value is None or isinstance(value, str)
            elif bare == "separable":
                fine = value is None or isinstance(value, bool)
            elif field in COUNTS:
                fine = _count(value, least=0)
            else:
                fine = value is None or _is_number(value)
            yield fine, f"{who}: {field} is {str(value)[:40]!r}"


# Whole numbers that are always known.
COUNTS = {
    "layer",
    "head",
    "queries",
    "fitted",
    "tested",
    "content_queries",
    "tied",
    "attacks",
    "violations",
    "grown",
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _count(value: Any, *, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**53


def _whole_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(_count(one, least=0) for one in value)


def _is_plan(plan: Any) -> bool:
    if not isinstance(plan, dict) or set(plan) != set(vars(Plan())):
        return False
    if not all(_is_number(v) or isinstance(v, bool) for v in plan.values()):
        return False
    try:
        Plan(**plan)
    except AttsvmError:
        return False
    return True

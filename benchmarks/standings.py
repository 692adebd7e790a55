"""Rows: what a contestant needed on a work, beside ours and beside what is to be reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.task import Entry, Work

OURS = "ours"
HEADS = ("work", "contestant", "seeds", "CPU s", "certified gap", "ratio to ours", "reach", "met?")


def row(
    work: str,
    contestant: str,
    *,
    about: Work,
    entry: Entry,
    measurements: Sequence[Mapping[str, Any]],
    ours: Sequence[Mapping[str, Any]],
    note: str = "",
    quick: bool = False,
) -> dict[str, Any]:
    """The summary of one contestant on one work, JSON-able.

    CPU seconds and correlation are the median over seeds, gap and peak memory the largest; the
    ratio divides the medians over the seeds that both ran on. `ours` holds our measurements on
    the same work; quick: they are of the size of a quick run.
    """
    gaps = [m["gap"] for m in measurements]
    peaks = [m["peak_mb"] for m in measurements if m["peak_mb"] is not None]
    out: dict[str, Any] = {
        "work": work,
        "contestant": contestant,
        "size": list(about.size_of(quick=quick)),
        "norm": about.norm,
        "problems": measurements[0]["problems"] if measurements else None,
        "seeds": len(measurements),
        "cpu_seconds": _median(measurements, "cpu_seconds"),
        "wall_seconds": _median(measurements, "wall_seconds"),
        "gap": None if None in gaps else max(gaps, default=None),
        "bound": "both" if len({m["bound"] for m in measurements}) > 1 else _first(measurements),
        "solver": ", ".join(sorted({m["solver"] for m in measurements} - {""})),
        "peak_mb": max(peaks, default=None),
        "steps": measurements[0].get("steps") if measurements else None,
        "correlation": _median([m for m in measurements if m.get("steps")], "correlation"),
        "ratio": _ratio(measurements, ours),
        "note": note,
    }
    if out["size"] != list(about.size):
        return out | {"reach": [], "met": None}  # what is to be reached belongs to the full size
    return out | _reach(out, about, entry)


def _median(measurements: Sequence[Mapping[str, Any]], key: str) -> float | None:
    return median(m[key] for m in measurements) if measurements else None


def _first(measurements: Sequence[Mapping[str, Any]]) -> str | None:
    return measurements[0]["bound"] if measurements else None


def _ratio(theirs: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]) -> float | None:
    """Their median CPU seconds over ours, on common seeds; None without one."""
    mine = {m["seed"]: m["cpu_seconds"] for m in ours}
    both = [(m["cpu_seconds"], mine[m["seed"]]) for m in theirs if m["seed"] in mine]
    if not both:
        return None
    return median(t for t, _ in both) / median(o for _, o in both)


def _reach(found: Mapping[str, Any], about: Work, entry: Entry) -> dict[str, Any]:
    """What is to be reached, in words, and whether it was (None: nothing asked, or not measured).

    For ours: the most CPU seconds, memory and gap; for another: how many times our CPU time.
    """
    asked: list[str] = []
    met: list[bool] = []

    def ask(words: str, value: float | None, ok: bool) -> None:
        asked.append(words)
        met.append(value is not None and ok)

    if entry.reach is not None:
        ratio = found["ratio"]
        ask(f"≥ {entry.reach:g} ×", ratio, ratio is not None and ratio >= entry.reach)
    if found["contestant"] == OURS:
        for words, key, most in (
            (f"≤ {about.cpu:g} s" if about.cpu else "", "cpu_seconds", about.cpu),
            (f"≤ {about.memory:g} GB" if about.memory else "", "peak_mb", about.memory),
            (f"gap ≤ {about.gap:.0e}" if about.gap else "", "gap", about.gap),
        ):
            if most is not None:
                value = found[key]
                scale = 1024.0 if key == "peak_mb" else 1.0
                ask(words, value, value is not None and value <= most * scale)
    if not asked or found["cpu_seconds"] is None:
        return {"reach": asked, "met": None}
    if found["note"]:  # seeds are missing: ours has failed, another's ratio is not known
        return {"reach": asked, "met": False if found["contestant"] == OURS else None}
    return {"reach": asked, "met": all(met)}


def cells(found: Mapping[str, Any]) -> list[str]:
    """The printed cells of a row, in the order of HEADS."""
    seconds, gap, ratio = found["cpu_seconds"], found["gap"], found["ratio"]
    bound = " (our lower bound)" if found["bound"] in ("ours", "both") else ""
    missing = found["note"] or "not measured"
    size = ", ".join(map(str, found["size"]))
    count, grade = str(found["seeds"]), "none" if gap is None else f"{gap:.1e}{bound}"
    time = missing if seconds is None else f"{seconds:.3g}"
    if found["steps"]:  # training: seconds of one step of one instance, and steps a second
        count += f" × {found['problems']} × {found['steps']}"
        grade = f"correlation {found['correlation']:.4f}"
        time += f" ({1 / seconds:,.0f}/s)"
    return [
        f"{found['work']} ({size})",
        found["contestant"],
        count,
        time,
        "–" if seconds is None else grade,
        "–" if ratio is None else f"{ratio:.0f}" if ratio >= 1000 else f"{ratio:.4g}",
        ", ".join(found["reach"]) or "–",
        {None: "–", True: "yes", False: "no"}[found["met"]],
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as an aligned table, which is Markdown as well."""
    lines = [list(HEADS), *(cells(found) for found in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(HEADS))]
    text = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(text)

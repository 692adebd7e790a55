"""What pages show of a head: samples, gaps and offsets that agree with themselves; and the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isclose, log
from pathlib import Path
from typing import Any

from attsvm.ground.version import __version__
from attsvm.lens.audit.possible import is_share
from attsvm.lens.audit.row import Check
from attsvm.lens.page.document import render
from attsvm.lens.page.folder import PAGE

# Pictures, whose paths and letters are the business of Matplotlib.
_PICTURE = re.compile("<svg.*?</svg>", re.DOTALL)
# How closely sums and logarithms of attention agree.
NEAR = 1e-6


def shown_checks(report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether what every head's page shows agrees with itself."""
    for row, one in zip(report["heads"], report["details"], strict=False):
        who = f"layer {row['layer']}, head {row['head']}"
        for part, checks in (
            ("samples", _samples(one["samples"])),
            ("gaps", _gaps(one["gaps"], row)),
            ("offsets", _offsets(one["offsets"])),
        ):
            for fine, said in checks:
                yield fine, f"{who}, {part}: {said}"


def page_checks(folder: Path, report: Mapping[str, Any]) -> Iterator[Check]:
    """Whether report.html is the page of results.json, its pictures left out.

    A page of another version may be worded otherwise, and is not compared.
    """
    if report.get("version") != __version__:
        return
    try:
        page = (folder / PAGE).read_text("utf-8")
    except (OSError, ValueError):
        yield False, f"{PAGE} is not there, or cannot be read"
        return
    made = _PICTURE.sub("", render(report)).splitlines()
    held = _PICTURE.sub("", page).splitlines()
    yield len(held) == len(made), f"{PAGE} has {len(held)} lines, its results make {len(made)}"
    for number, (one, other) in enumerate(zip(held, made, strict=False)):
        yield one == other, f"line {number + 1}, pictures left out, is not what its results make"


def _samples(samples: Any) -> Iterator[Check]:
    for k, one in enumerate(samples):
        attention, valid, chosen = one["attention"], one["valid"], one["chosen"]
        size = len(one["tokens"])
        yield (
            len(attention) == len(valid) == size and 0 <= one["position"] < size,
            f"sample {k} has {size} tokens and other numbers of them elsewhere",
        )
        yield (
            isclose(sum(attention), 1.0, abs_tol=NEAR) and min(attention) >= 0,
            f"sample {k}: its attention sums to {sum(attention):.6g}",
        )
        unseen = [p for p, seen in zip(attention, valid, strict=True) if not seen]
        yield not any(unseen), f"sample {k} attends to a key that it may not see"
        top = attention[chosen]
        yield top >= max(attention) - NEAR, f"sample {k}: key {chosen} is not its largest attention"
        rivals = [p for t, p in enumerate(attention) if valid[t] and t != chosen]
        if rivals and min(top, max(rivals)) > 0:
            gap = log(top / max(rivals))
            yield (
                isclose(gap, one["gap"], rel_tol=NEAR, abs_tol=NEAR),
                f"sample {k}: the gap is {one['gap']:.6g} and its attention makes it {gap:.6g}",
            )
        drop = set(one["evictable"])
        kept = [p for t, p in enumerate(attention) if valid[t] and t not in drop]
        yield (
            chosen not in drop
            and all(valid[t] for t in drop)
            and max((attention[t] for t in drop), default=0.0) <= min(kept) + NEAR,
            f"sample {k}: its evictable keys are not those of the least attention",
        )


def _gaps(gaps: Any, row: Mapping[str, Any]) -> Iterator[Check]:
    if not gaps:
        return
    head, svm, best = gaps["head"], gaps["svm"], gaps["best"]
    yield (
        head == sorted(head) and svm == sorted(svm),
        "its gaps are not sorted",
    )
    yield (
        len(head) == len(svm) == gaps["queries"] <= row["fitted"],
        f"it has {len(head)} gaps of {gaps['queries']} queries",
    )
    if best is not None:
        yield (
            best[0] <= best[1] and max(head[0], svm[0]) <= best[1] * (1 + NEAR),
            f"its least gap is above the certified best, {best[1]:.6g}",
        )


def _offsets(found: Any) -> Iterator[Check]:
    offsets = found["offset"]
    yield offsets == sorted(set(offsets)), "its offsets are not in order"
    parts = zip(*(found[name] for name in ("queries", "chosen", "attention")), strict=True)
    for offset, (queries, chosen, attention) in zip(offsets, parts, strict=True):
        yield (
            is_share(chosen, queries) and 0 <= attention <= 1,
            f"offset {offset} is chosen by {chosen} of {queries} queries",
        )

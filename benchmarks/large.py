"""The large works: every norm at the size of real heads, planted with a margin of 20 %.

S1, S2 and S3 are (50, 32, 64), (200, 64, 384) and (1000, 64, 64); S4 is (2000, 128, 256). S2 is an
attention head of 200 queries on 64 keys each.
"""

from __future__ import annotations

from functools import partial

from benchmarks import instances
from benchmarks.task import Entry, Size, Work

SIZES: dict[str, Size] = {
    "S1": (50, 32, 64),
    "S2": (200, 64, 384),
    "S3": (1000, 64, 64),
    "S4": (2000, 128, 256),
}
# A size that goes the way of the large ones: more than 600 margins.
_TINY = (40, 18, 10)
# The most CPU seconds to a gap of 1e-2, 1e-3 and 1e-6.
_MOST: dict[tuple[str, str], tuple[float, float, float]] = {
    ("S1", "nuclear"): (0.2, 0.2, 0.4),
    ("S1", "spectral"): (0.2, 0.2, 0.4),
    ("S1", "l1.1"): (0.2, 0.2, 0.4),
    ("S1", "l1.75"): (0.2, 0.2, 0.4),
    ("S1", "l3"): (0.2, 0.2, 0.4),
    ("S1", "l1"): (0.2, 0.3, 0.5),
    ("S1", "max"): (0.2, 0.3, 0.6),
    ("S2", "nuclear"): (5.0, 10.2, 33.4),
    ("S2", "spectral"): (1.4, 2.4, 4.6),
    ("S2", "l1.1"): (13.8, 34.0, 122.0),
    ("S2", "l1.75"): (1.4, 3.8, 7.2),
    ("S2", "l3"): (1.6, 3.6, 12.2),
    ("S2", "l1"): (60.0, 60.0, 97.0),
    ("S2", "max"): (8.0, 25.0, 110.0),
    ("S3", "nuclear"): (1.8, 3.2, 8.6),
    ("S3", "spectral"): (2.0, 3.6, 9.2),
    ("S3", "l1.1"): (2.0, 3.6, 14.2),
    ("S3", "l1.75"): (1.0, 2.6, 7.2),
    ("S3", "l3"): (2.0, 2.6, 7.4),
    ("S3", "l1"): (5.0, 20.0, 81.0),
    ("S3", "max"): (5.0, 20.0, 69.0),
}


def _work(size: Size, norm: str, tol: float, cpu: float, memory: float = 2.0) -> Work:
    return Work(
        "planted, margin 20 %",
        instances.planted_20,
        size,
        tiny=_TINY,
        norm=norm,
        tol=tol,
        cpu=cpu,
        memory=memory,
        gap=tol,
        entries={"ours": Entry(quick_seeds=0)},
    )


LARGE: dict[str, Work] = {
    f"{norm}-{size}-{tol}": _work(SIZES[size], norm, float(tol), cpu)
    for (size, norm), most in _MOST.items()
    for tol, cpu in zip(("1e-2", "1e-3", "1e-6"), most, strict=True)
} | {
    "nuclear-S4-1e-3": _work(SIZES["S4"], "nuclear", 1e-3, 25.0),
    "frobenius-S2-1e-8": _work(SIZES["S2"], "frobenius", 1e-8, 2.0),
    "frobenius-huge-1e-6": Work(
        "planted, margin 50 %",
        instances.planted_50,
        (10000, 128, 128),
        tiny=_TINY,
        tol=1e-6,
        cpu=60,
        memory=3,
        gap=1e-6,
        entries={"ours": Entry(seeds=1, quick_seeds=0)},
    ),
    "frobenius-wide-1e-3": Work(
        "planted, margin 20 %, tokens in single precision",
        partial(instances.planted_20, kind="float32"),
        (2000, 512, 768),
        tiny=_TINY,
        tol=1e-3,
        cpu=60,
        entries={"ours": Entry(seeds=1, quick_seeds=0)},
    ),
}

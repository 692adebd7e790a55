"""B: the share of runs that end at the best tokens, against d, n and T: v1, Figure 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from attsvm.experiments.binomial import most_spread, spread
from attsvm.experiments.studies.shared.published_shares import (
    DIMENSIONS_6,
    FIGURE_6,
    INSTANCES,
    LEVEL,
    NAMES,
    ShareCell,
    apart,
    listed,
    rise,
)
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals

KEYS = ["model", "size", "d"]


def published(point: Mapping[str, Any]) -> float:
    """The published share of a cell."""
    n, T = map(int, point["size"].split("x"))
    return FIGURE_6[NAMES[point["model"]], n, T][DIMENSIONS_6.index(point["d"])]


def cells(table: Table) -> list[ShareCell]:
    """Every cell with its published share."""
    out = []
    for (model, size, d), ends in table.groupby(KEYS, sort=False).global_end:
        n, T = size.split("x")
        share = published({"model": model, "size": size, "d": d})
        name = f"{NAMES[model]} n={n} T={T} d={d}"
        out.append(ShareCell(name, int(ends.sum()), len(ends), share))
    return out


def _paired(table: Table, size: str) -> float:
    """The share of factors less that of W on the same instances of all d, in standard errors."""
    ends = table[table["size"] == size].pivot_table(
        index=["d", "seed"], columns="model", values="global_end", aggfunc="first"
    )
    apart_by = ends.factored.astype(float) - ends.weight.astype(float)
    return float(apart_by.sum() / max(np.sqrt((apart_by**2).sum()), 1.0))


def _changes(table: Table, falls_at: Sequence[int]) -> tuple[list[float], list[float]]:
    """Rises from one d to the next, and falls from one n to the next, in standard errors."""
    ends = {key: rows.to_numpy() for key, rows in table.groupby(KEYS).global_end}
    sizes, dimensions = table["size"].unique(), sorted(table.d.unique())
    counts = [size for size in sizes if size.endswith("x5")]
    rises, falls = [], []
    for model in NAMES:
        for size in sizes:
            rises += [rise(ends[model, size, b], ends[model, size, a])
                      for a, b in pairwise(dimensions)]  # fmt: skip
        for d in falls_at:
            falls += [rise(ends[model, few, d], ends[model, many, d])
                      for few, many in pairwise(counts)]  # fmt: skip
    return rises, falls


def checks(table: Table, thresholds: Any) -> Checks:
    """Shares rise to one with d and fall with n; factors against W; every cell against v1."""
    every = cells(table)
    other = apart(every)
    yield equals(f"cells of {len(every)} that differ from the published share (Holm, {LEVEL:.0%})",
                 len(other), 0)  # fmt: skip
    total, count = spread([cell.pair for cell in every])
    what = f"Σ z² of the {count} cells with enough of both ends, against the published shares"
    if count:
        yield at_most(what, total, round(most_spread(count, LEVEL), 1))
    last = table.d.max()
    least = table[table.d == last].groupby(KEYS).global_end.mean().min()
    yield at_least(f"least share at d = {last}", least, thresholds["last"])
    falls_at = list(thresholds["falls at"])
    rises, falls = _changes(table, falls_at)
    yield at_least("least rise of a share from one d to the next, in standard errors", min(rises),
                   -3.0)  # fmt: skip
    yield at_least(f"least fall of a share from one n to the next at d = {falls_at}, in standard "
                   "errors", min(falls), thresholds["fall"])  # fmt: skip
    yield at_least("factors over W at n = 5, T = 20, in standard errors", _paired(table, "5x20"),
                   thresholds["apart"])  # fmt: skip
    yield at_least("W over factors at n = 20, T = 5, in standard errors", -_paired(table, "20x5"),
                   thresholds["apart"])  # fmt: skip
    seeds = table.seed.nunique()
    yield Premises(
        len(table),
        f"{seeds} instances in each of {len(every)} cells, {INSTANCES} published ones; beyond "
        f"chance: {listed(other)}",
    )


# Five in 100 are short of one at most, of 500 published ones 38 in the worst cell at d = 30. From
# one n to the next and between W and factors the published shares are apart by 4 standard errors
# of 100 instances and more.
STUDY = Study(
    id="B.global-share-against-dimension",
    title="Large dimensions lead to the best tokens",
    kind="figure",
    source="paper",
    statement="On random instances whose best scores are ahead by 0.1, the share of runs that end "
    "at the best token of every input rises to one with d and falls with n, for descent on W and "
    "on K and Q; factors get there more often than W where inputs are long, less often where there "
    "are many. All 60 published shares are met.",
    family="spaced",
    grid={
        "model": list(NAMES),
        "size": ["5x5", "10x5", "20x5", "5x10", "5x20"],
        "d": list(DIMENSIONS_6),
    },
    run={
        "gap": 0.1,
        "init": "drawn",
        "steps": 2000,
    },
    seeds=100,
    group=50,
    measure="global-ends",
    checks=checks,
    thresholds={"last": 0.9, "fall": 2.0, "apart": 2.0, "falls at": [5, 10]},
    quick={
        "grid": {"size": ["5x5", "20x5", "5x20"], "d": [5, 10, 20]},
        "seeds": 12,
        "run": {"steps": 1000},
        # At d = 20 factors are at 0.79 of 500 with n = 20: 12 of them stay above one half. That
        # few cannot tell factors from W: only that it is not the other way round.
        "thresholds": {"last": 0.5, "apart": -2.0, "falls at": [10]},
    },
    figure={
        "kind": "curves",
        "x": "d",
        "lines": "size",
        "panels": "model",
        "value": "global_end",
        "published": published,
        "ylabel": "share of runs at the best tokens",
    },
    differs="The number of steps and the start are not stated in v1: 2,000 steps and entries "
    "uniform in ±1/√d are those of the released code of the averaged runs. All gradients here are "
    "exact, and there is no ridge.",
    theorem="v1, Figure 6",
    size="100 of 500 instances",
)

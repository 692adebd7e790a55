"""B: the least loss in growing balls turns to the max-margin solution, Frobenius and nuclear."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attsvm.experiments.group import Group, Parts, selected_by
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.theory.regularization_path.paths import regpath


def measure(group: Group, norm: str, radii: Sequence[float]) -> Parts:
    """The least loss in balls whose radii are multiples of the least norm.

    Instances that are not separable for their best tokens are left out. direction, margin: what
    correlation and share are below 1; stationary: how far the point is from stationary on its
    sphere; size: its norm over the radius; excess: its loss above that of the best tokens.
    """
    parts: Parts = []
    found = group.solved(group.best, norm)
    each = zip(group.seeds, group.tokens, group.heads, group.best, found, strict=True)
    for seed, tokens, v, best, c in each:
        if not np.isfinite(c.upper):
            continue
        path = regpath(tokens, model=group.run["model"], head=v, radii=c.upper * np.array(radii),
                       seed=seed, starts=2)  # fmt: skip
        parts.append({
            "seed": seed, "radius": radii, "correlation": path.correlation, "share": path.share,
            "direction": np.maximum(1 - path.correlation, 1e-12),
            "margin": np.maximum(1 - path.share, 1e-9), "stationary": path.residual,
            "size": path.size / path.radii, "excess": path.loss - path.infimum,
            "best": (selected_by(tokens, path.matrices()[:, 0]) == best).all(axis=1),
            "gap": float(c.gap),
        })  # fmt: skip
    return parts


def checks(table: Table, thresholds: Any) -> Checks:
    """Paths of stationary points of the right size turn to the certified direction."""
    ends = table[table.radius == table.radius.max()]
    yield equals("paths that do not end at the best tokens", (~ends.best).sum(), 0)
    if "correlation" in thresholds:
        yield at_least("least correlation at the largest radius",
                       ends.correlation.min(skipna=False), thresholds["correlation"])  # fmt: skip
    yield at_least("least certified margin share at the largest radius",
                   ends.share.min(skipna=False), thresholds["share"])  # fmt: skip
    first = table.radius == table.radius.min()
    yield at_most("largest distance from stationary, radii after the first",
                  max(table.stationary[~first].max(), 0.0), 1e-4)  # fmt: skip
    yield at_most("largest size over its radius", table["size"].max(), 1 + 1e-6)
    yield at_most("loss above that of the best tokens at the largest radius",
                  max(ends.excess.max(), 0.0), 1e-9)  # fmt: skip
    yield Premises(len(ends), f"{len(ends)} instances are separable for their best tokens")


_study = partial(
    Study,
    kind="theorem",
    source="paper",
    family="sphere",
    seeds=10,
    group=2,
    measure=measure,
    checks=checks,
    gap=2e-6,
    quick={"seeds": 3, "run": {"radii": [1.0, 10.0, 100.0, 1000.0]}},
    figure={
        "kind": "curves",
        "x": "radius",
        "value": {"direction": "1 − correlation", "margin": "1 − margin share"},
        "log": "xy",
        "xlabel": "radius over the least norm",
        "ylabel": "distance to the max-margin solution",
    },
    theorem="v1, Theorem 2",
)
_RUN = {"n": 4, "T": 5, "d": 6, "radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]}

STUDIES = (
    _study(
        id="B.regularization-path-frobenius",
        title="Regularization path, Frobenius",
        statement="Minimising the loss with ‖W‖_F ≤ R, W_R/R tends to the Frobenius max-margin "
        "direction of the best tokens as R grows, if they are unique and can be separated.",
        run={**_RUN, "model": "weight", "norm": "frobenius"},
        thresholds={"correlation": 0.999, "share": 0.99},
    ),
    _study(
        id="B.regularization-path-nuclear",
        title="Regularization path, nuclear",
        statement="Minimising the loss with ‖K‖² + ‖Q‖² ≤ 2R, K Qᵀ/R tends to the set of nuclear "
        "max-margin solutions of the best tokens as R grows, if they are unique and can be "
        "separated.",
        run={**_RUN, "model": "factored", "norm": "nuclear"},
        # Solutions need not be unique, so the margin share is the measure.
        thresholds={"share": 0.99},
    ),
)

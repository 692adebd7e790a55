"""B: the least loss in growing balls turns to the max-margin solution, Frobenius and nuclear."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attsvm.experiments.group import Group, Parts, cosine, evaluate_at, selected_by, share
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.selection import Selection
from attsvm.theory.regularization_path.ball import stationarity
from attsvm.theory.regularization_path.paths import regpath


def measure(group: Group, norm: str, radii: Sequence[float]) -> Parts:
    """The least loss in balls whose radii are multiples of the least norm.

    One row per instance and radius; instances that are not separable for their best tokens have
    none. direction, margin: what correlation and share are below 1; stationary: how far the
    point is from stationary on its sphere; size: its norm over the radius; excess: its loss above
    that of the best tokens.
    """
    rows = []
    for seed, tokens, v, c in zip(
        group.seeds, group.tokens, group.heads, group.solved(group.best, norm), strict=True
    ):
        if not np.isfinite(c.upper):
            continue
        path = regpath(tokens, model=group.run["model"], head=v, radii=c.upper * np.array(radii),
                       seed=seed, starts=2)  # fmt: skip
        best = Selection.best(tokens, v).indices
        floor = float(np.mean(np.logaddexp(0.0, -tokens.scores(v).max(axis=1))))
        for times, W in zip(radii, path.matrices()[:, 0], strict=True):
            at = evaluate_at(tokens, v, W[None])
            G = at.gradient.direction["W"][0]
            rows.append({
                "seed": seed,
                "radius": float(times),
                "correlation": cosine(W, c),
                "share": share(W, c),
                "direction": max(1 - cosine(W, c), 1e-12),
                "margin": max(1 - share(W, c), 1e-9),
                "stationary": stationarity(c.norm, W, G)[0],
                "size": float(c.norm.value(W)) / (c.upper * times),
                "excess": float(at.loss[0]) - floor,
                "best": bool((selected_by(tokens, W) == best).all()),
                "gap": float(c.gap),
            })  # fmt: skip
    return rows


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


def _figure(norm: str) -> dict[str, Any]:
    return {
        "kind": "curves",
        "x": "radius",
        "value": ["direction", "margin"],
        "log": "xy",
        "xlabel": f"radius over the least {norm} norm",
        "ylabel": "1 − correlation (direction) and 1 − margin share (margin)",
    }


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
    theorem="v1, Theorem 2",
)
_RUN = {"n": 4, "T": 5, "d": 6, "radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]}
_QUICK = {"seeds": 3, "run": {"radii": [1.0, 10.0, 100.0, 1000.0]}}

STUDIES = (
    _study(
        id="B.regularization-path-frobenius",
        title="Regularization path, Frobenius",
        statement="Minimising the loss with ‖W‖_F ≤ R, W_R/R tends to the Frobenius max-margin "
        "direction of the best tokens as R grows, if they are unique and can be separated.",
        run={**_RUN, "model": "weight", "norm": "frobenius"},
        thresholds={"correlation": 0.999, "share": 0.99},
        quick=_QUICK,
        figure=_figure("frobenius"),
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
        quick=_QUICK,
        figure=_figure("nuclear"),
    ),
)

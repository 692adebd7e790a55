"""C: the least loss in an ℓp ball has the direction of the ℓp solution."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.experiments.group import Group, Parts, cosine, evaluate_at, selected_by, share
from attsvm.experiments.studies.shared.mirror_runs import norm_name
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.norms import norm_of
from attsvm.theory.regularization_path.ball import stationarity
from attsvm.theory.regularization_path.excess import Excess
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.losses import loss_of

# Of the exponent whose ball has the sharpest corners one instance in six, two radii and one start.
FEW = "1.1"


def measure(group: Group, p: str, multiples: list[float], starts: int) -> Parts:
    """The path of every instance, at radii that are multiples of the least norm.

    right: the best tokens are selected; residual: of stationarity in the ball; size: ‖W‖/R − 1;
    gain: log of the excess loss at the certified direction over that at W. A problem without a
    solution has one row.
    """
    few = p == FEW
    chosen = np.array([seed % 6 == 1 or not few for seed in group.seeds])
    best = group.solved(group.best, norm_name(p), where=chosen)
    rows: list[dict[str, Any]] = []
    for b in np.flatnonzero(chosen):
        about = {"seed": group.seeds[b], "gap": float(best[b].gap)}
        about |= {"separable": best[b].W is not None, "right": False}
        if best[b].W is None:
            rows.append(about)
            continue
        tokens, v = group.tokens[b], group.heads[b]
        reach = np.array(multiples[-2:] if few else multiples)
        norm, least = norm_of(norm_name(p)), float(best[b].upper)
        path = regpath(
            tokens, norm=norm_name(p), head=v, radii=least * reach, starts=1 if few else starts
        )
        excess = Excess.over(tokens, group.best[b], v, loss_of("logistic"))
        for W, m in zip(path.weights["W"], reach, strict=True):
            here, there = (evaluate_at(tokens, v, M[None]) for M in (W, m * np.asarray(best[b].W)))
            rows.append({
                **about,
                "multiple": m,
                "right": bool((selected_by(tokens, W) == group.best[b]).all()),
                "cosine": cosine(W, best[b]),
                "share": share(W, best[b]),
                "residual": stationarity(norm, W, here.gradient.direction["W"][0])[0],
                "size": float(norm.value(W)) / (least * m) - 1,
                "gain": excess(there.logs[0]).log - excess(here.logs[0]).log,
            })  # fmt: skip
    return rows


def checks(table: Table, thresholds: Any) -> Checks:
    """Stationary points of the ball, no worse than the certified direction, ending in it."""
    sure = table[table.separable]
    for p, rows in sure.groupby("p", sort=False):
        runs = rows.groupby("seed")
        first, end = runs.head(1).set_index("seed"), runs.tail(1).set_index("seed")
        yield equals(f"p = {p}: paths that select the best tokens", end.right.sum(), len(end))
        yield at_least(f"p = {p}: least cosine at the last radius", end.cosine.min(skipna=False),
                       thresholds["cosine"])  # fmt: skip
        yield at_least(f"p = {p}: least margin share at the last radius",
                       end.share.min(skipna=False), thresholds["share"])  # fmt: skip
        yield at_least(f"p = {p}: least gain in margin share, first to last radius",
                       (end.share - first.share).min(skipna=False), 0.0)  # fmt: skip
        yield at_most(f"p = {p}: largest stationarity residual in the ball",
                      rows.residual.max(skipna=False), 1e-6)  # fmt: skip
        yield at_most(f"p = {p}: largest | ‖W‖/R − 1 |", rows["size"].abs().max(skipna=False), 1e-9)
        yield at_least(f"p = {p}: least log gain in excess loss over the certified direction",
                       rows.gain.min(skipna=False), -1e-9)  # fmt: skip
    judged, total = (rows.groupby("p").seed.nunique().sum() for rows in (sure, table))
    yield Premises(int(judged), f"{judged} of {total} separable for the best tokens")


STUDY = Study(
    id="C.mirror-path",
    title="ℓp regularization path",
    kind="theorem",
    source="paper",
    statement="The minimiser of the loss over ‖W‖_p ≤ R, divided by R, tends to the normalized ℓp "
    "solution at the best tokens as R grows. This is paper B's theorem for any norm, with the ℓp "
    "norm.",
    family=published_family,
    grid={"p": [FEW, "1.75", "2", "3"]},
    run={"multiples": [1.0, 3.0, 10.0, 30.0, 100.0, 1000.0], "starts": 2},
    seeds=6,
    first=1,
    group=2,
    measure=measure,
    checks=checks,
    gap=1e-6,
    thresholds={"cosine": 0.999, "share": 0.99},
    quick={
        "seeds": 2,
        "grid": {"p": ["1.75", "2", "3"]},
        "run": {"multiples": [1.0, 30.0, 1000.0], "starts": 1},
    },
    figure={
        "kind": "curves",
        "x": "multiple",
        "value": {"1 - cosine": "direction", "1 - share": "margin"},
        "apart": True,
        "lines": "p",
        "where": {"separable": True},
        "log": "xy",
        "xlabel": "R / least norm",
        "ylabel": "1 − cosine, 1 − certified margin share",
    },
    reference="tarzanagh2023svm",
    theorem="B v1, Theorem 9",
)

"""A: the least loss in a growing ball turns into the max-margin prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attsvm.experiments.group import Group, cosine
from attsvm.experiments.studies.shared.prompt_paths import (
    least_cosine,
    prompt_measures,
    prompts,
    separable,
    sure_margins,
    unsettled,
)
from attsvm.experiments.study import Found, Premises, Study, Table, at_most, equals
from attsvm.theory.regularization_path.paths import regpath

_MEASURED = ("right", "away", "log_excess", "still", "outside", "above", "unsure")


def measure(group: Group, loss: str, factors: Sequence[float], starts: int) -> dict[str, Any]:
    """A row for each instance and radius, factor times ‖p^mm‖; nan where nothing separates."""
    found = group.solved(group.best)
    R = len(factors)
    columns: dict[str, list[Any]] = {name: [] for name in _MEASURED}
    for tokens, v, best in zip(group.tokens, group.heads, found, strict=True):
        if not separable(best):
            for values in columns.values():
                values.append(np.full(R, np.nan))
            continue
        radii = np.array(factors) * best.upper
        path = regpath(tokens, model="prompt", head=v, loss=loss, radii=radii, starts=starts)
        p = path.weights["p"]
        seen = prompt_measures(tokens, v, loss, p)
        ray = np.asarray(best.W)[:, 0] / best.upper * radii[:, None]
        known = prompt_measures(tokens, v, loss, ray)
        sure = least_cosine(sure_margins(seen.excess, known.log_excess), radii, best.lower)
        columns["right"].append(seen.right.astype(float))
        columns["away"].append([1 - cosine(x[:, None], best) for x in p])
        columns["log_excess"].append(seen.log_excess)
        columns["still"].append(seen.away)
        columns["outside"].append(np.linalg.norm(p, axis=1) / radii - 1)
        columns["above"].append(seen.log_excess - known.log_excess)
        columns["unsure"].append(1 - sure)
    return {
        "seed": np.repeat(group.seeds, R),
        "factor": np.tile(factors, len(group)),
        "separable": np.repeat([separable(c) for c in found], R),
        "unsettled": np.repeat([unsettled(c) for c in found], R),
        "gap": np.repeat([float(c.gap) if separable(c) else np.nan for c in found], R),
        **{name: np.concatenate(values) for name, values in columns.items()},
    }


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """Directions, losses and stationarity at every radius."""
    inside = table[table.separable]
    unit = table.factor[table.factor >= 1].min()
    for loss, rows in table.groupby("loss", sort=False):
        rows = rows[rows.separable].set_index("seed")
        last = rows[rows.factor == table.factor.max()]
        left = last.away / rows.away[rows.factor == unit].clip(lower=1e-300)
        yield equals(f"{loss}: instances that select the best tokens", last.right.sum(), len(last))
        for what, seen, threshold in (
            # An angle of 0.045; over five decades of R, two are asked of the direction.
            ("1 − cosine at the last radius", last.away.max(), 1e-3),
            ("1 − cosine at the last radius, over that at R = ‖p^mm‖", left.max(), 0.01),
            # R p^mm/‖p^mm‖ alone reaches −R/‖p^mm‖ up to the logarithm of a constant.
            ("log of the loss above its floor, last radius", last.log_excess.max(), -20.0),
            # Exact at a minimiser: these are for rounding and the ends of iterations.
            ("1 − cosine of p and −∇L, all radii", rows.still.max(), 1e-6),
            ("‖p‖/R − 1", rows.outside.max(), 1e-9),
            ("log loss above that of R p^mm/‖p^mm‖", rows.above.max(), 1e-9),
            # At most log(nTC)·‖p^mm‖/R, C the largest ratio of slopes times score gaps.
            ("1 − cosine that any p as good as R p^mm/‖p^mm‖ can have, last radius",
             last.unsure.max(), 1e-3),
        ):  # fmt: skip
            yield at_most(f"{loss}: {what}", seen, threshold)
    once = table.drop_duplicates("seed")
    yield equals("problems neither solved nor proved infeasible", once.unsettled.sum(), 0)
    gap = float(inside.gap.max()) if len(inside) else 0.0
    yield at_most("largest certified gap", gap, 1e-9)
    yield Premises(
        int(once.separable.sum()) * table.loss.nunique(),
        f"best tokens separable in {once.separable.sum()} of {len(once)} random instances; only "
        "those are judged",
        gap,
    )


STUDY = Study(
    id="A.regularization-path",
    title="The least loss in a growing ball",
    kind="theorem",
    source="paper",
    statement="When each input has one best token and some prompt selects them all, the prompt of "
    "least loss with ‖p‖ ≤ R turns into the max-margin direction of the best tokens as R grows, "
    "for every decreasing loss, and the loss tends to that of the best tokens. This is paper B's "
    "theorem for any norm: a prompt is the case of one common query z, where the W of least "
    "Frobenius norm is p zᵀ/‖z‖².",
    family=prompts,
    grid={"loss": ["logistic", "exponential", "linear"]},
    run={
        "n": 5,
        "T": 5,
        "d": 8,
        "starts": 2,
        "factors": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 100_000.0],
    },
    seeds=20,
    group=5,
    measure=measure,
    checks=checks,
    quick={"seeds": 4, "run": {"starts": 1, "factors": [0.3, 1.0, 10.0, 100.0, 100_000.0]}},
    figure={
        "kind": "curves",
        "where": lambda t: t.separable,
        "x": "factor",
        "value": "away",
        "lines": "loss",
        "band": "half",
        "log": "xy",
        "level": 1e-3,
        "xlabel": "R / ‖p^mm‖",
        "ylabel": "1 − cosine to the certified direction (median, middle half)",
    },
    reference="tarzanagh2023svm",
    theorem="B v1, Theorem 9",
)

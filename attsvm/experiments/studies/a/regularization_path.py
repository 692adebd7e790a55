"""A: the least loss in a growing ball turns into the max-margin prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, cosine
from attsvm.experiments.studies.shared.prompt_paths import (
    PromptMeasures,
    least_cosine,
    prompt_measures,
    prompts,
    separable,
    sure_margins,
    unsettled,
)
from attsvm.experiments.study import Checks, Premises, Study, Table, at_most, equals
from attsvm.problem.tokens import Tokens
from attsvm.theory.regularization_path.paths import regpath

_MEASURED = ("right", "away", "log_excess", "still", "outside", "above", "unsure")


def path_rows(
    group: Group, name: str, values: Sequence[float], point: Callable[..., dict[str, Any]]
) -> Parts:
    """A row for each instance and value: what `point` finds; nan where nothing separates."""
    parts = []
    for seed, tokens, v, best in zip(
        group.seeds, group.tokens, group.heads, group.solved(group.best), strict=True
    ):
        can = separable(best)
        row: dict[str, Any] = {
            "seed": seed,
            name: values,
            "separable": can,
            "unsettled": unsettled(best),
            "gap": float(best.gap) if can else np.nan,
            **dict.fromkeys(_MEASURED, np.nan),
        }
        row |= point(tokens, v, best) if can else {}
        parts.append(row)
    return parts


def seen_columns(seen: PromptMeasures, p: Floats, best: Certificate) -> dict[str, Any]:
    """What both paths measure of prompts p (R, d)."""
    away = [1 - cosine(x[:, None], best) for x in p]
    return {"right": seen.right.astype(float), "away": away, "log_excess": seen.log_excess}


def in_balls(group: Group, loss: str, factors: Sequence[float], starts: int) -> Parts:
    """The least loss with ‖p‖ ≤ R, R a factor times ‖p^mm‖."""

    def point(tokens: Tokens, v: Floats, best: Certificate) -> dict[str, Any]:
        radii = np.array(factors) * best.upper
        path = regpath(tokens, model="prompt", head=v, loss=loss, radii=radii, starts=starts)
        p = path.weights["p"]
        ray = np.asarray(best.W)[:, 0] / best.upper * radii[:, None]
        seen, known = (prompt_measures(tokens, v, loss, x) for x in (p, ray))
        sure = least_cosine(sure_margins(seen.excess, known.log_excess), radii, best.lower)
        return {
            **seen_columns(seen, p, best),
            "still": seen.away,
            "outside": np.linalg.norm(p, axis=1) / radii - 1,
            "above": seen.log_excess - known.log_excess,
            "unsure": 1 - sure,
        }

    return path_rows(group, "factor", factors, point)


def what_is_left(last: Table, first: Table) -> float:
    """The largest ratio of 1 − cosine at the end to that at the beginning, by instance."""
    return float((last.away / first.away.clip(lower=1e-300)).max())


def ball_checks(table: Table, thresholds: Any) -> Checks:
    """Directions, losses and stationarity at every radius."""
    unit = table.factor[table.factor >= 1].min()
    for loss, rows in table.groupby("loss", sort=False):
        rows = rows[rows.separable].set_index("seed")
        last = rows[rows.factor == table.factor.max()]
        yield equals(f"{loss}: instances that select the best tokens", last.right.sum(), len(last))
        for what, seen, threshold in (
            # An angle of 0.045; over five decades of R, two are asked of the direction.
            ("1 − cosine at the last radius", last.away.max(), 1e-3),
            ("1 − cosine at the last radius, over that at R = ‖p^mm‖",
             what_is_left(last, rows[rows.factor == unit]), 0.01),
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
    yield from end_checks(table, table.loss.nunique())


def end_checks(table: Table, losses: int) -> Checks:
    """Certificates, and how many instances are judged."""
    once = table.drop_duplicates("seed")
    yield equals("problems neither solved nor proved infeasible", once.unsettled.sum(), 0)
    count = int(once.separable.sum())
    yield Premises(count * losses, f"best tokens separable in {count} of {len(once)} random "
                   "instances; only those are judged")  # fmt: skip


path_study = partial(Study, kind="theorem", family=prompts)
SIZE = {"n": 5, "T": 5, "d": 8}
FIGURE = {
    "kind": "curves",
    "where": lambda t: t.separable,
    "value": "away",
    "band": "half",
    "log": "xy",
    "level": 1e-3,
    "ylabel": "1 − cosine to the certified direction (median, middle half)",
}

STUDY = path_study(
    id="A.regularization-path",
    title="The least loss in a growing ball",
    source="paper",
    statement="When each input has one best token and some prompt selects them all, the prompt "
    "of least loss with ‖p‖ ≤ R turns into the max-margin direction of the best tokens as R "
    "grows, for every decreasing loss, and the loss tends to that of the best tokens. This is "
    "paper B's theorem for any norm: a prompt is the case of one common query z, where the W "
    "of least Frobenius norm is p zᵀ/‖z‖².",
    grid={"loss": ["logistic", "exponential", "linear"]},
    run={
        **SIZE,
        "starts": 2,
        "factors": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 100_000.0],
    },
    seeds=20,
    group=5,
    measure=in_balls,
    checks=ball_checks,
    gap=1e-9,
    quick={"seeds": 4, "run": {"starts": 1, "factors": [0.3, 1.0, 10.0, 100.0, 100_000.0]}},
    figure={**FIGURE, "x": "factor", "lines": "loss", "xlabel": "R / ‖p^mm‖"},
    reference="tarzanagh2023svm",
    theorem="B v1, Theorem 9",
)

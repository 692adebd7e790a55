"""A: a penalty that vanishes leads where a growing ball does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.a.regularization_path import (
    FIGURE,
    SIZE,
    end_checks,
    path_rows,
    path_study,
    seen_columns,
    what_is_left,
)
from attsvm.experiments.studies.shared.prompt_paths import (
    PromptMeasures,
    prompt_measures,
)
from attsvm.experiments.study import Checks, Table, at_most, equals
from attsvm.problem.tokens import Tokens
from attsvm.theory.regularization_path.paths import regpath


def penalized(group: Group, penalties: Sequence[float], loss: str = "logistic") -> Parts:
    """The least loss plus λ‖p‖²/2; digits: −log₁₀ λ."""
    lam = np.array(penalties)

    def point(tokens: Tokens, v: Floats, best: Certificate) -> dict[str, Any]:
        with np.errstate(over="ignore"):  # of a polished end that is then not taken
            options: dict[str, Any] = {"model": "prompt", "head": v, "loss": loss, "starts": 1}
            path = regpath(tokens, penalties=penalties, **options)
        p = path.weights["p"]
        sizes = np.linalg.norm(p, axis=1)
        seen = prompt_measures(tokens, v, loss, p)
        unit = np.asarray(best.W)[:, 0] / best.upper
        own, above = _objective(seen, p, lam), []
        for times in np.geomspace(0.5, 2.0, 41):
            ray = unit * sizes[:, None] * times
            above.append(own - _objective(prompt_measures(tokens, v, loss, ray), ray, lam))
        # Cut off at sizes whose squares leave the floats.
        size = np.exp(np.minimum(seen.log_scale - np.log(lam), 300.0))
        rest = seen.gradient * size[:, None] + p
        return {
            **seen_columns(seen, p, best),
            "still": np.linalg.norm(rest, axis=1) / sizes,
            "above": np.max(above, axis=0) / sizes**2 * 2,
        }

    parts = path_rows(group, "penalty", penalties, point)
    return [{**part, "digits": -np.log10(lam)} for part in parts]


def _objective(found: PromptMeasures, p: Floats, penalties: Floats) -> Floats:
    """(L − floor)/λ + ‖p‖²/2 at each prompt (R, d)."""
    return np.exp(found.log_excess - np.log(penalties)) + (p**2).sum(axis=1) / 2


def penalty_checks(table: Table, thresholds: Any) -> Checks:
    """Directions, losses and stationarity at every penalty."""
    inside = table[table.separable].set_index("seed")
    last = inside[inside.penalty == table.penalty.min()]
    first = inside[inside.penalty == table.penalty.max()]
    yield equals("instances that select the best tokens", last.right.sum(), len(last))
    # ‖p‖ is about log(1/λ) ‖p^mm‖, 690 times at the least penalty: 31 times may stand across it.
    yield at_most("1 − cosine at the least penalty", last.away.max(), 1e-3)
    # log(1/λ) grows 150 times in between, and 1 − cosine falls as its inverse square.
    yield at_most("1 − cosine at the least penalty, over that at the largest",
                  what_is_left(last, first), 0.01)  # fmt: skip
    yield at_most("log of the loss above its floor, least penalty", last.log_excess.max(), -20.0)
    # Exact at a minimiser: both are for rounding and the ends of iterations.
    yield at_most("‖∇L + λp‖ / ‖λp‖, all penalties", inside.still.max(), 1e-3)
    yield at_most("L + λ‖p‖²/2 above that of the best multiple of p^mm, in λ‖p‖²/2",
                  inside.above.max(), 1e-9)  # fmt: skip
    yield from end_checks(table, 1)


STUDY = path_study(
    id="A.vanishing-penalty",
    title="A vanishing penalty",
    source="derived",
    statement="When each input has one best token and some prompt selects them all, the prompt "
    "that minimises the loss plus λ‖p‖²/2 tends, for λ → 0, to the same direction as the "
    "prompt of least loss in a growing ball: the max-margin one. It is the least in its own "
    "ball.",
    run={**SIZE, "penalties": [1e-2, 1e-4, 1e-8, 1e-16, 1e-32, 1e-64, 1e-128, 1e-300]},
    seeds=8,
    group=2,
    measure=penalized,
    checks=penalty_checks,
    gap=1e-9,
    quick={"seeds": 2, "run": {"penalties": [1e-2, 1e-8, 1e-300]}},
    figure={**FIGURE, "x": "digits", "xlabel": "−log₁₀ of the penalty λ"},
)

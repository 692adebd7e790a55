"""A: a penalty that vanishes leads where a growing ball does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group, cosine
from attsvm.experiments.studies.shared.prompt_paths import (
    PromptMeasures,
    prompt_measures,
    prompts,
    separable,
    unsettled,
)
from attsvm.experiments.study import Found, Premises, Study, at_most, equals
from attsvm.theory.regularization_path.paths import regpath

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# The largest over the instances of each of these is held against its threshold. That the first two
# and the loss vanish is the claim; the other two are exact at a minimiser, and their thresholds are
# for rounding and the ends of iterations.
_WORST = {
    # An angle of 0.045. ‖p‖ is about log(1/λ) ‖p^mm‖, 690 times at the least penalty, and p is
    # p^mm times that plus a constant: 31 times ‖p^mm‖ may stand across it.
    "away": ("1 − cosine at the least penalty", 1e-3),
    # log(1/λ) grows 150 times in between; the angle falls as 1/log(1/λ), 1 − cosine as its square.
    "left": ("1 − cosine at the least penalty, over that at the largest", 0.01),
    "loss": ("log of the loss above its floor, least penalty", -20.0),
    # ∇L changes by the factor e^−1 while p grows by ‖p^mm‖: p is right to 1e-3 of that.
    "still": ("‖∇L + λp‖ / ‖λp‖, all penalties", 1e-3),
    "above": ("L + λ‖p‖²/2 above that of the best multiple of p^mm, in λ‖p‖²/2", 1e-9),
}
_MEASURED = ("right", "away", "size", "log_excess", "still", "above")


def measure(group: Group, loss: str, penalties: Sequence[float], starts: int) -> dict[str, Any]:
    """A row for each instance and penalty; nan where nothing separates. size: ‖p‖/‖p^mm‖."""
    found = group.solved(group.best)
    lam = np.array(penalties)
    columns: dict[str, list[Any]] = {name: [] for name in _MEASURED}
    for tokens, v, best in zip(group.tokens, group.heads, found, strict=True):
        if not separable(best):
            for values in columns.values():
                values.append(np.full(len(lam), np.nan))
            continue
        with np.errstate(over="ignore"):  # of a polished end that is then not taken
            path = regpath(
                tokens, penalties=penalties, model="prompt", head=v, loss=loss, starts=starts
            )
        p = path.weights["p"]
        sizes = np.linalg.norm(p, axis=1)
        seen = prompt_measures(tokens, v, loss, p)
        unit = np.asarray(best.W)[:, 0] / best.upper
        own, above = _objective(seen, p, lam), []
        for times in np.geomspace(0.5, 2.0, 41):
            ray = unit * sizes[:, None] * times
            above.append(own - _objective(prompt_measures(tokens, v, loss, ray), ray, lam))
        columns["right"].append(seen.right.astype(float))
        columns["away"].append([1 - cosine(x[:, None], best) for x in p])
        columns["size"].append(sizes / best.upper)
        columns["log_excess"].append(seen.log_excess)
        columns["still"].append(_unbalanced(seen, p, lam))
        columns["above"].append(np.max(above, axis=0) / sizes**2 * 2)
    return {
        "seed": np.repeat(group.seeds, len(lam)),
        "penalty": np.tile(lam, len(group)),
        "separable": np.repeat([separable(c) for c in found], len(lam)),
        "unsettled": np.repeat([unsettled(c) for c in found], len(lam)),
        "gap": np.repeat([float(c.gap) if separable(c) else np.nan for c in found], len(lam)),
        **{name: np.concatenate(values) for name, values in columns.items()},
    }


def _unbalanced(found: PromptMeasures, p: Floats, penalties: Floats) -> Floats:
    """‖∇L + λp‖/‖λp‖ at each prompt (R, d), cut off at sizes whose squares leave the floats."""
    size = np.exp(np.minimum(found.log_scale - np.log(penalties), 300.0))
    rest = found.gradient * size[:, None] + p
    return np.linalg.norm(rest, axis=1) / np.linalg.norm(p, axis=1)


def _objective(found: PromptMeasures, p: Floats, penalties: Floats) -> Floats:
    """(L − floor)/λ + ‖p‖²/2 at each prompt (R, d)."""
    return np.exp(found.log_excess - np.log(penalties)) + (p**2).sum(axis=1) / 2


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Directions, losses and stationarity at every penalty."""
    inside = table[table.separable].set_index("seed")
    last = inside[inside.penalty == table.penalty.min()]
    first = inside[inside.penalty == table.penalty.max()]
    worst = {
        "away": last.away.max(),
        "left": (last.away / first.away.clip(lower=1e-300)).max(),
        "loss": last.log_excess.max(),
        "still": inside.still.max(),
        "above": inside.above.max(),
    }
    yield equals("instances that select the best tokens", last.right.sum(), len(last))
    for name, (what, threshold) in _WORST.items():
        yield at_most(what, worst[name], threshold)
    once = table.drop_duplicates("seed")
    yield equals("problems neither solved nor proved infeasible", once.unsettled.sum(), 0)
    gap = float(inside.gap.max()) if len(inside) else 0.0
    yield at_most("largest certified gap", gap, 1e-9)
    yield Premises(
        len(last),
        f"best tokens separable in {len(last)} of {len(once)} random instances, each input with "
        "one best token; only those are judged",
        gap,
    )


def figure(table: DataFrame, study: Study) -> Figure:
    """1 − cosine to the certified direction and the norm, over the penalty."""
    from attsvm.plotting.studies import CYCLE, band, level, panels

    drawn, (left, right) = panels(2)
    wide = table[table.separable].pivot(index="penalty", columns="seed")
    digits = -np.log10(wide.index)
    for k, (axes, values) in enumerate(((left, wide.away), (right, wide["size"]))):
        band(axes, digits, values, colour=CYCLE[k], label="median, middle half")
        axes.set(xscale="log", yscale="log", xlabel="−log₁₀ of the penalty λ")
    right.plot(digits, digits * np.log(10), "--", color="#444444", linewidth=1, label="log 1/λ")
    level(left, 1e-3, "asked at the least penalty: 1e-3")
    left.set(title="Direction", ylabel="1 − cosine to the certified direction")
    right.set(title="Norm", ylabel="‖p‖ / ‖p^mm‖")
    left.legend(frameon=False)
    right.legend(frameon=False)
    return drawn


STUDY = Study(
    id="A.vanishing-penalty",
    title="A vanishing penalty",
    kind="theorem",
    source="derived",
    statement="When each input has one best token and some prompt selects them all, the prompt "
    "that minimises the loss plus λ‖p‖²/2 tends, for λ → 0, to the same direction as the prompt of "
    "least loss in a growing ball: the max-margin one. It is the least in its own ball.",
    family=prompts,
    run={
        "n": 5,
        "T": 5,
        "d": 8,
        "starts": 1,
        "loss": "logistic",
        "penalties": [1e-2, 1e-4, 1e-8, 1e-16, 1e-32, 1e-64, 1e-128, 1e-300],
    },
    seeds=8,
    group=2,
    measure=measure,
    checks=checks,
    quick={"seeds": 2, "run": {"penalties": [1e-2, 1e-8, 1e-300]}},
    figure=figure,
    reference="tarzanagh2023maxmargin",
)

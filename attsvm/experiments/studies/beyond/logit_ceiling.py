"""Beyond: under decoupled weight decay logits have a ceiling, known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.experiments.group import Group, Parts, gaps_of, norms_of, thinned
from attsvm.experiments.studies.shared.steepest_runs import RATES, steepest
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most
from attsvm.norms import norm_of
from attsvm.training.optimizers import schedule_of

# Model and optimizer: the norm of a block's step, and the norm of W in which the gap is bounded.
CASES = {
    "weight ngd": ("frobenius", "frobenius"),
    "weight sign": ("max", "max"),
    "weight spectral": ("spectral", "spectral"),
    "factored ngd": ("frobenius", "nuclear"),
    "factored spectral": ("spectral", "spectral"),
}


def measure(group: Group, case: str, start: int) -> Parts:
    """A row per instance and record: `lead`, the least logit lead of a best token, and its ceiling.

    The ceiling is Π R_t over the blocks, times the best margin. over: the largest norm of a block
    over its R_t. gap: that of the certified solution.
    """
    model, optimizer = case.split()
    step, whole = CASES[case]
    decay = group.run["decay"]
    path = steepest(group, model, optimizer, start=start, decay=decay)
    keep = thinned(path.steps)
    steps = path.steps[keep]
    found = group.solved(group.best, whole)
    norm, over, reach = norm_of(step), [], np.ones((len(keep), len(group)))
    for block in path.weights.values():
        sizes = np.stack([np.asarray(norm.value(M)) for M in block[keep]])
        radius = _radius(steps, sizes[0], RATES[model], decay)
        over.append(np.divide(sizes, radius, out=np.zeros_like(sizes), where=radius > 0))
        reach = reach * radius
    W, ceiling, most = path.matrices()[keep], reach / norms_of(found), np.max(over, axis=0)
    return [
        {
            "seed": seed,
            "step": steps,
            "lead": np.array([found[b].problem.margins(M).min() for M in W[:, b]]),
            "ceiling": ceiling[:, b],
            "over": most[:, b],
            "gap": gaps_of(found)[b],
        }
        for b, seed in enumerate(group.seeds)
    ]  # fmt: skip


def _radius(steps: Ints, first: Floats, lr: float, decay: float) -> Floats:
    """R_t (R, B): ‖θ₀‖ Π + (1 − Π)/λ, Π = Π_s (1 − λη_s), and ‖θ₀‖ + Σ_s η_s without decay."""
    eta = lr * np.array([schedule_of("sqrt")(s) for s in range(int(steps[-1]))])
    left = np.cumprod([1.0, *(1 - decay * eta)])[steps][:, None]
    added = (1 - left) / decay if decay else np.cumsum([0.0, *eta])[steps][:, None]
    return left * first + added


def checks(table: Table, thresholds: Any) -> Checks:
    """Norms and gaps stay below their bounds at every record, and end near them."""
    near, last = thresholds["attained"], table.step.max()
    half = table.step[table.step >= last / 2].min()
    for case, rows in table.groupby("case", sort=False):
        held, free = rows[rows.decay > 0], rows[rows.decay == 0]
        later = held[held.step > 0]
        yield at_most(f"{case}: largest norm over its bound R_t", later.over.max(), 1 + 1e-9)
        yield at_most(f"{case}: largest gap over its ceiling", (later.lead / later.ceiling).max(),
                      1 + 1e-9)  # fmt: skip
        ends = held[held.step == last]
        yield at_least(f"{case}: median gap over its ceiling at the end",
                       (ends.lead / ends.ceiling).median(), near)  # fmt: skip
        grown, went = (_growth(some, half, last) for some in (held, free))
        # It stops where the ceiling does, and goes on with the bound ‖θ₀‖ + Σ η without one, about
        # √2 for a weight and 2 for factors.
        yield at_most(f"{case}: the same over the growth of the ceiling",
                      (grown.lead / grown.ceiling).median(), 1 / near)  # fmt: skip
        yield at_least(f"{case}: without decay, the same over the growth of ‖θ₀‖ + Σ η",
                       (went.lead / went.ceiling).median(), near)  # fmt: skip
        yield at_least(f"{case}: growth without decay over that with it",
                       went.lead.median() / grown.lead.median(), 1.0)  # fmt: skip
    count = table.groupby("case").seed.nunique().sum()
    yield Premises(
        int(count),
        f"{count} runs of optimizers whose steps have norm η, separable at the best tokens",
    )


def _growth(rows: Table, half: int, last: int) -> Table:
    """Each instance's values at the last step over those at half of the steps."""
    by_step = rows.set_index(["step", "seed"])[["lead", "ceiling"]]
    return by_step.loc[last] / by_step.loc[half]


def _cases(weight: float, factored: float) -> list[tuple[str, float]]:
    """Every case with the decay of its model, and without."""
    decay = {"weight": weight, "factored": factored}
    return [(case, value) for case in CASES for value in (decay[case.split()[0]], 0.0)]


STUDY = Study(
    id="beyond.logit-ceiling",
    title="Weight decay puts a ceiling on logits",
    kind="question",
    source="derived",
    statement="For an optimizer whose steps have norm η, decoupled decay λ keeps the parameters "
    "below "
    "R = ‖θ₀‖Π(1−λη) + (1 − Π(1−λη))/λ in that norm, so the least selection gap never exceeds "
    "the best margin times R (times R_K R_Q for factors). With steps falling like t^−½ runs come "
    "near this ceiling and stop there, while without decay the logits go on growing. With "
    "constant steps they stop lower: sign descent at .70 of it, factors at .74 to .80.",
    family="sphere",
    grid={"case decay": _cases(0.02, 0.1)},
    run={"n": 5, "T": 4, "d": 5, "equal_scores": True, "steps": 6000, "start": 1},
    seeds=10,
    measure=measure,
    checks=checks,
    gap=1e-6,
    # Near: nine tenths.
    thresholds={"attained": 0.9},
    quick={
        "grid": {"case decay": _cases(0.04, 0.2)},
        "seeds": 3,
        "run": {"steps": 1500},
    },
    figure={
        "kind": "curves",
        "x": "step",
        "value": {"lead": "gap", "ceiling": "ceiling"},
        "lines": "decay",
        "panels": "case",
        "band": "half",
        "ylabel": "least selection gap (median, middle half)",
    },
)

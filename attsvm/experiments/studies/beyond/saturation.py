"""Beyond: when attention saturates, and that saturated attention may still leave its tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from attsvm._utils.arrays import Bools, Ints
from attsvm.api import train
from attsvm.experiments.group import Group, Parts, selected_by, thinned
from attsvm.experiments.measures import needed_lead
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.studies.shared.random_instances import uniform_starts
from attsvm.experiments.study import (
    Checks,
    Note,
    Premises,
    Study,
    Table,
    at_least,
    at_most,
    equals,
    info,
)
from attsvm.problem.selection import Selection
from attsvm.theory.optima import optimality
from attsvm.theory.outcome import DECIDED

# ---------------------------------------------------------------- the time of saturation


def checks_time(table: Table, thresholds: Any) -> Checks:
    """No run saturates before its certified least time, and most do soon after."""
    places = {
        place: rows.set_index("seed") for place, rows in table.groupby(["decay", "lr"], sort=False)
    }
    yield equals("runs that saturate before the least time of their selection",
                 (table.time < table.least).sum(), 0)  # fmt: skip
    yield equals("selections without a certified norm", table.least_norm.isna().sum(), 0)
    yield at_least("selections that their decay forbids to saturate", np.isinf(table.least).sum(),
                   1)  # fmt: skip
    for (decay, lr), rows in places.items():
        yield info(f"decay {decay:g} lr {lr:g}: median time over the least", rows.ratio.median())
    ratios = [rows.ratio.median() for rows in places.values()]
    yield at_most("largest of these medians", np.nanmax(ratios), thresholds["slow"])
    free = {lr: rows for (decay, lr), rows in places.items() if decay == 0}
    ways = [lr * rows.time.median() for lr, rows in free.items()]
    yield at_least("without decay: share that saturates",
                   min(rows.saturated.mean() for rows in free.values()), 0.9)  # fmt: skip
    yield at_most("without decay: largest ratio of median way lr · time between step sizes",
                  max(ways) / min(ways), 1.25)  # fmt: skip
    strong = thresholds["slowing"]
    for lr, rows in free.items():
        later = places[strong, lr].time / rows.time
        yield at_least(f"lr {lr:g}: median time with decay {strong:g} over without",
                       later.median(), 1.1)  # fmt: skip
    yield Premises(
        len(table),
        f"{len(table)} runs of normalized descent from zero; a lead of {needed_lead():.2f} is "
        f"attention {DECIDED:g}",
    )


def _steps(way: float, lrs: list[float]) -> list[tuple[float, int]]:
    """Each step size with so many steps that their product is the same for every one."""
    return [(lr, round(way / lr)) for lr in lrs]


STUDY_TIME = Study(
    id="beyond.saturation-time",
    title="Attention saturates at the earliest when its norm can have been reached",
    kind="question",
    source="derived",
    statement="Attention s on one token of every input needs ‖W‖ ≥ log(s/(1 − s)) N, N the least "
    "norm of the selection. So steps of norm η from zero take at least log(s/(1 − s)) N/η steps to "
    "saturate, or log(1 − λN log(s/(1 − s)))/log(1 − λη) with decay λ, and never do where that is "
    "no number. Runs of normalized descent take in the median at most three times as long, and "
    "their way η · steps does not depend on η.",
    family="sphere",
    # The last decay forbids most selections to saturate; with the one before it runs are slower.
    grid={
        "decay": [0.0, 0.01, 0.03, 0.1],
        "lr steps": _steps(300.0, [0.03, 0.1, 0.3, 1.0]),
    },
    run={"n": 6, "T": 8, "d": 10},
    seeds=30,
    measure="saturation-time",
    checks=checks_time,
    gap=1e-8,
    thresholds={"slowing": 0.03, "slow": 3.0},
    quick={
        "grid": {"decay": [0.0, 0.03, 0.1], "lr steps": _steps(200.0, [0.3, 1.0])},
        "seeds": 8,
    },
    figure={
        "kind": "scatter",
        "x": "least",
        "y": "time",
        "lines": "decay",
        "where": lambda table: np.isfinite(table.least),
        "log": True,
        "diagonal": True,
        "xlabel": "least number of steps, certified",
        "ylabel": "steps to saturation",
    },
)


# ---------------------------------------------------------------- saturated, and left

_KINDS = {True: "local", False: "wrong", None: "unknown"}


def measure_stays(group: Group, start: int, judged_at: int, sure: float) -> Parts:
    """A row per instance and record of normalized descent; what is known of a run is repeated.

    first, last: the steps of its longest stay, at more than `sure`, with tokens that it leaves.
    stay_kind, early_kind, end_kind: whether the tokens of the stay, of the step
    `judged_at` and of the end are certified locally optimal ("local"), or not ("wrong"). moved:
    whether those of judged_at and of the end differ. Of one input with other tokens in the stay
    (`token`) than at the end (`winner`): probability of the first, and lead in logits.
    """
    d, run = group.tokens[0].d, group.run
    first = uniform_starts(group.seeds, {"W": (d, d)}, start)
    path = train(group.tokens, head=group.heads, lr=run["lr"], steps=run["steps"], init=first)
    kept = thinned(path.steps, 60)
    at = int(np.argmax(path.steps >= judged_at))
    parts = []
    for seed, t, v, W in zip(
        group.seeds, group.tokens, group.heads, path.weights["W"].swapaxes(0, 1), strict=True
    ):
        top = np.stack([selected_by(t, M) for M in W])
        logits = np.einsum("ntd,rdq,nq->rnt", np.asarray(t.keys), W, t.queries)
        s = softmax(logits, axis=2)
        least = s.max(axis=2).min(axis=1)
        begin, last = _longest_stay(path.steps, top, least >= sure)
        stay, early, end = (optimality(t, Selection.of(t, top[k]), v) for k in (last, at, -1))
        i = int((top[last] != top[-1]).argmax())
        a, b = top[last, i], top[-1, i]
        moved = bool((top[at] != top[-1]).any())
        parts.append({
            "seed": seed, "first": path.steps[begin], "last": path.steps[last],
            "step": path.steps[kept],
            "probability": s[kept, i, a], "lead": logits[kept, i, a] - logits[kept, i, b],
            "stay_kind": _KINDS[stay.locally], "stay_gap": float(stay.certificate.gap),
            "early_kind": _KINDS[early.locally] if least[at] >= DECIDED else "not saturated",
            "early_gap": float(early.certificate.gap), "moved": moved,
            "end_kind": _KINDS[end.locally], "end_gap": float(end.certificate.gap),
        })  # fmt: skip
    return parts


def _longest_stay(steps: Ints, top: Ints, sure: Bools) -> tuple[int, int]:
    """The longest stay with one selection that is left: first and last record.

    top (R, n): the tokens of each record. sure (R,): whether the record counts.
    """
    edges = np.flatnonzero((top[1:] != top[:-1]).any(axis=1)) + 1
    best = (0, 0)
    for start, end in zip(np.concatenate([[0], edges[:-1]]), edges, strict=True):
        held = np.flatnonzero(sure[start:end]) + start
        if len(held) and steps[held[-1]] - steps[held[0]] >= steps[best[1]] - steps[best[0]]:
            best = (int(held[0]), int(held[-1]))
    return best


def _watched(table: Table, count: int) -> Table:
    """The runs with the longest stays, one row each."""
    runs = table.drop_duplicates("seed").assign(stay=lambda rows: rows["last"] - rows["first"])
    return runs.sort_values("stay", ascending=False, kind="stable").head(count)


def checks_stays(table: Table, thresholds: Any) -> Checks:
    """A long stay on tokens certified wrong is left, and every run ends at certified ones."""
    runs, watched = table.drop_duplicates("seed"), _watched(table, thresholds["watched"])
    wrong = watched[watched.stay_kind == "wrong"]
    yield at_least("longest stay at probability 1.000000 on certified wrong tokens, iterations",
                   wrong.stay.max() if len(wrong) else 0, thresholds["long"])  # fmt: skip
    yield equals("runs that end at certified locally optimal tokens",
                 (runs.end_kind == "local").sum(), len(runs))  # fmt: skip
    local, other = (runs[runs.early_kind == kind] for kind in ("local", "wrong"))
    yield equals("saturated runs at certified wrong tokens that do not leave them",
                 (~other.moved).sum(), 0)  # fmt: skip
    lost = local[local.moved]
    saturated = runs[runs.early_kind != "not saturated"]
    gap = max(watched.stay_gap.max(), watched.end_gap.max(), saturated.early_gap.max())
    yield Premises(
        len(other) + len(wrong),
        f"at iteration {thresholds['judged_at']:,} {len(local)} of {len(runs)} runs are saturated "
        f"at certified locally optimal tokens, {len(other)} at certified others, "
        f"{len(runs) - len(saturated)} are not saturated",
        gap,
    )
    if len(lost):
        yield Note(
            f"{len(lost)} of {len(local)} runs leave tokens that are certified locally optimal: "
            "the verdict is on the limit of large norms, and the norm is still moderate"
        )


_JUDGED_AT = 2000

STUDY_STAYS = Study(
    id="beyond.saturation-is-not-convergence",
    title="Saturated attention is not convergence",
    kind="question",
    source="measured",
    statement="A run can hold probability 1.000000 for over a thousand iterations on tokens that "
    "are certified not locally optimal, and then leave them; every run ends at tokens that are "
    "certified locally optimal.",
    family=published_family,
    run={"lr": 0.1, "steps": 20_000, "start": 0, "judged_at": _JUDGED_AT, "sure": 1 - 5e-7},
    seeds=100,
    group=20,
    measure=measure_stays,
    checks=checks_stays,
    gap=1e-8,
    thresholds={"watched": 3, "long": 1000, "judged_at": _JUDGED_AT},
    # Ten seeds with the two longest stays among them.
    quick={"first": 30, "seeds": 10, "run": {"steps": 9000}, "thresholds": {"watched": 1}},
    figure={
        "kind": "curves",
        "x": "step",
        "value": {"probability": "probability of a token that is left", "lead": "its lead"},
        "apart": True,
        "lines": "seed",
        "where": lambda table: (table.step > 0) & table.seed.isin(_watched(table, 3).seed),
        "log": "x",
        "xlabel": "iteration",
        "ylabel": "",
    },
)


STUDIES = (STUDY_TIME, STUDY_STAYS)

"""Beyond: attention of 1.000000 is no proof of convergence."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from attsvm._utils.arrays import Bools, Ints
from attsvm.api import train
from attsvm.experiments.group import Group, Parts, selected_by, thinned
from attsvm.experiments.studies.shared.attending_runs import uniform_starts
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, equals
from attsvm.problem.selection import Selection
from attsvm.theory.optima import optimality
from attsvm.theory.outcome import DECIDED

_KINDS = {True: "local", False: "wrong", None: "unknown"}


def measure(group: Group, start: int, judged_at: int, sure: float) -> Parts:
    """A row per instance and record of normalized descent; what is known of a run is repeated.

    first, last: the steps of its longest stay, at more than `sure`, with tokens that it leaves by
    the step `left`. stay_kind, early_kind, end_kind: whether the tokens of the stay, of the step
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
        begin, last, after = _longest_stay(path.steps, top, least >= sure)
        stay, early, end = (optimality(t, Selection.of(t, top[k]), v) for k in (last, at, -1))
        i = int((top[last] != top[-1]).argmax())
        a, b = top[last, i], top[-1, i]
        moved = bool((top[at] != top[-1]).any())
        parts.append({
            "seed": seed, "first": path.steps[begin], "last": path.steps[last],
            "left": path.steps[after], "step": path.steps[kept],
            "probability": s[kept, i, a], "lead": logits[kept, i, a] - logits[kept, i, b],
            "stay_kind": _KINDS[stay.locally], "stay_gap": float(stay.certificate.gap),
            "early_kind": _KINDS[early.locally] if least[at] >= DECIDED else "not saturated",
            "early_gap": float(early.certificate.gap), "moved": moved,
            "end_kind": _KINDS[end.locally], "end_gap": float(end.certificate.gap),
        })  # fmt: skip
    return parts


def _longest_stay(steps: Ints, top: Ints, sure: Bools) -> tuple[int, int, int]:
    """The longest stay with one selection that is left: first and last record, and the next one.

    top (R, n): the tokens of each record. sure (R,): whether the record counts.
    """
    edges = np.flatnonzero((top[1:] != top[:-1]).any(axis=1)) + 1
    best = (0, 0, 0)
    for start, end in zip(np.concatenate([[0], edges[:-1]]), edges, strict=True):
        held = np.flatnonzero(sure[start:end]) + start
        if len(held) and steps[held[-1]] - steps[held[0]] >= steps[best[1]] - steps[best[0]]:
            best = (int(held[0]), int(held[-1]), int(end))
    return best


def _watched(table: Table, count: int) -> Table:
    """The runs with the longest stays, one row each."""
    runs = table.drop_duplicates("seed").assign(stay=lambda rows: rows["last"] - rows["first"])
    return runs.sort_values("stay", ascending=False, kind="stable").head(count)


def checks(table: Table, thresholds: Any) -> Checks:
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

STUDY = Study(
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
    measure=measure,
    checks=checks,
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

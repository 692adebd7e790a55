"""E: linear multiclass data, where each optimizer's norm is a theorem, with certified margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.experiments.group import Group, Parts, share
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most, info
from attsvm.next_token.problems import decoder_problem
from attsvm.next_token.sentences import Sentences
from attsvm.solvers.solve import solve

NORMS = ("frobenius", "max", "spectral")
# The optimizer, and the norm of its steps.
OWN = {
    "ngd": "frobenius",
    "sign": "max",
    "spectral": "spectral",
    "signum": "max",
    "muon": "spectral",
    "adam": "max",
}
# With momentum, and Adam, the published rates are slower.
STEEPEST = ("ngd", "sign", "spectral")
MARKS = (3, 10, 30, 100, 300, 1000, 3000, 10_000)


def measure(group: Group, optimizer: str, n: int, d: int, steps: int) -> Parts:
    """The certified share of the best margin in each norm, at the marks and at the end."""
    rows: Parts = []
    for seed in group.seeds:
        rng = np.random.default_rng([seed, n, d])
        E, labels = rng.standard_normal((n, d)), rng.integers(0, n, n)
        data = Sentences.of([[x, int(y)] for x, y in enumerate(labels)], vocabulary=n)
        options = {"eps": 0.0} if optimizer == "adam" else None
        path = train(data, model="decoder", embedding=E, optimizer=optimizer, lr=group.run["lr"],
                     schedule="sqrt", steps=steps, options=options)  # fmt: skip
        posed = decoder_problem(data, E)
        found = {norm: solve(posed, norm) for norm in NORMS}
        marks = [t for t in MARKS if t < steps] + [steps]
        kept = np.searchsorted(path.steps, marks)
        W = path.weights["W_ov"][kept, 0]
        rows.append({
            "seed": seed,
            "step": path.steps[kept],
            **{f"share_{norm}": [share(w, c) for w in W] for norm, c in found.items()},
            "margin": [posed.margins(w).min() for w in W],
            "separable": np.isfinite(found["frobenius"].upper),
            "gap": max(float(c.gap) for c in found.values()),
        })  # fmt: skip
    return rows


def checks(table: Table, thresholds: Any) -> Checks:
    """The own share at the end, its lead over the other norms, and the published rate."""
    last = table.step.max()
    for optimizer, own in OWN.items():
        rows = table[table.optimizer == optimizer]
        end = rows[rows.step == last]
        others = np.max([end[f"share_{name}"].median() for name in NORMS if name != own])
        mine = end[f"share_{own}"].median()
        if optimizer == "adam":
            yield info(f"{optimizer}: median margin share in {own}", mine)
            yield info(f"{optimizer}: its lead over the other norms", mine - others)
            continue
        name = "steepest" if optimizer in STEEPEST else "momentum"
        yield at_least(f"{optimizer}: median margin share in {own}", mine, thresholds[name])
        yield at_least(f"{optimizer}: its lead over the other norms", mine - others, 0.0)
        if optimizer in STEEPEST:
            late = rows[rows.step >= 100]
            bound = (np.log(late.step) + thresholds["n"]) / np.sqrt(late.step)
            ratio = ((1 - late[f"share_{own}"]) / bound).groupby(late.step).median()
            yield at_most(f"{optimizer}: median of (1 − share)√t/(log t + n), end over t = 100",
                          ratio.iloc[-1] / ratio.iloc[0], 1.0)  # fmt: skip
    sets = table.drop_duplicates("seed")
    inside = int(sets.separable.sum())
    yield Premises(inside, f"{inside} of {len(sets)} sets are separable; steps fall like t^−½")
    yield Note(
        "Adam, without eps, is not judged: its published bound, (d log t + nd)/t^⅓, is above 1 up "
        "to t = 10⁷"
    )


STUDY = Study(
    id="E.steepest-multiclass",
    title="Linear multiclass data: one norm per optimizer",
    kind="theorem",
    source="paper",
    statement="Fan, Schmidt and Thrampoulidis 2025: on separable linear multiclass data with the "
    "cross-entropy loss and steps η t^−½, normalized steepest descent tends to the largest margin "
    "in the norm of its steps, with a gap of O((log t + n)/√t), so does its momentum form, and "
    "Adam in the max norm, at slower rates. Figure 2 with certified margins: normalized, sign and "
    "spectral descent, signum, Muon and Adam.",
    grid={"optimizer": list(OWN)},
    run={"n": 10, "d": 15, "lr": 0.3, "steps": 10_000},
    seeds=10,
    group=5,
    measure=measure,
    checks=checks,
    gap=1e-6,
    thresholds={"steepest": 0.97, "momentum": 0.95, "n": 10},
    quick={"seeds": 3, "run": {"steps": 3000}, "thresholds": {"steepest": 0.93, "momentum": 0.9}},
    figure={
        "kind": "curves",
        "x": "step",
        "value": {f"share_{norm}": norm for norm in NORMS},
        "panels": "optimizer",
        "log": "x",
        "xlabel": "step",
        "ylabel": "certified margin share",
    },
    reference="fan2025spectral",
    theorem="Fan et al. 2025, main theorems, Figure 2",
)

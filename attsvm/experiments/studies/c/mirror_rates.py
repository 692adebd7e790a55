"""C: how fast the direction of mirror descent converges, on the clock of the flow.

Normalized mirror descent, u ← u − η g/‖g‖_q, follows the curve of mirror flow, du/dt = −g, at
another speed: each step takes the flow the time η/‖g‖_q. The log of the sum of these times is
what the rates are functions of; it reaches hundreds where a run of constant steps has 10.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.experiments.group import Group, Parts, divergence, evaluate_at, norm_name, thinned
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import Check, Checks, Note, Premises, Study, Table, at_least, at_most
from attsvm.norms import Norm, norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.optima import optimality
from attsvm.theory.rates import SHAPES, compare, fit

_COMPARED = ("1/log t", "log log t/log t", "(log log t)^2/log t", "(log t)^-a", "t^-a")
# The stated bounds, and the power of 1/log t in each.
BOUNDS = {
    "1.1": ("(log t)^-0.1", 0.1),
    "1.75": ("(log t)^-0.75", 0.75),
    "2": ("(log log t)^2/log t", 1.0),
    "3": ("log log t/log t", 1.0),
}

# The share of log t that is looked at, where it is not the last half: near p = 1 log t grows by
# decades within a run.
_TAIL = {"1.1": 0.9}
# The log of the flow time from which on a run is looked at.
_FROM = 2.0


def step_sizes(p: float, lr: float) -> Any:
    """The schedule (t + 1)^(p − 2) lr^(p − 2), as a function of the step.

    With step sizes lr times it, the dual variable grows like (lr t)^(p − 1), so the weights grow
    like lr t in every exponent, and no step is large beside them.
    """
    return lambda step: (lr * (step + 1.0)) ** (p - 2)


def log_slope(W: Floats, tokens: Tokens, v: Floats, norm: Norm) -> Floats:
    """log ‖g‖_dual (R,) of the gradients at W (R, d, d)."""
    found = evaluate_at(tokens, v, W)
    sizes = [float(norm.dual(g)) for g in found.gradient.direction["W"]]
    return np.log(sizes) + found.gradient.log_scale["W"]


def flow_clock(steps: Ints, log_rate: Floats) -> Floats:
    """log of the flow time at each record, −inf at the first, from log(η/‖g‖) at the records.

    Between records log(η/‖g‖) is taken as straight in the step, which it nearly is:
    ∫ e^(a + (b − a)s) ds over n steps = n (e^b − e^a)/(b − a).
    """
    low, rise = np.minimum(log_rate[:-1], log_rate[1:]), np.abs(np.diff(log_rate))
    safe = np.maximum(rise, 1e-9)
    part = np.log(np.diff(steps)) + low + safe + np.log(-np.expm1(-safe)) - np.log(safe)
    return np.concatenate([[-np.inf], np.logaddexp.accumulate(part)])


def measure(group: Group, p: str, lr: float, steps: int) -> Parts:
    """Clock, divergence and law of a run from W = 0; a row for each record that is kept.

    clock: log of the flow time; local: the run ends at tokens that are certified locally optimal;
    the others are those of `_law`.
    """
    name, sizes = norm_name(p), step_sizes(float(p), lr)
    path = train(
        group.tokens, optimizer=f"nmirror:{p}", head=group.heads, lr=lr, steps=steps, schedule=sizes
    )
    log_sizes = np.log([lr * sizes(int(step)) for step in path.steps])
    alpha = path.selection.reshape(len(group), -1)
    best, parts = group.solved(alpha, name), []
    for b, (tokens, v) in enumerate(zip(group.tokens, group.heads, strict=True)):
        W, end = path.weights["W"][:, b], Selection.of(tokens, alpha[b])
        clock = flow_clock(path.steps, log_sizes - log_slope(W, tokens, v, norm_of(name)))
        seen = clock > _FROM
        clock, away = clock[seen], divergence(W[seen], best[b], p)
        keep = thinned(clock)
        parts.append({
            "seed": group.seeds[b],
            "local": optimality(tokens, end, v, name).locally is True,
            **_law(clock, away, p),
            "gap": float(best[b].gap),
            "clock": clock[keep],
            "divergence": away[keep],
            "bound": np.exp(_bound(p, clock[keep])),
        })  # fmt: skip
    return parts


def _bound(p: str, clock: Floats) -> Floats:
    """The log of the stated bound of exponent p."""
    name, exponent = BOUNDS[p]
    return SHAPES[name].s(clock) if name in SHAPES else -exponent * np.log(clock)


def _law(clock: Floats, away: Floats, p: str) -> dict[str, Any]:
    """The law of a divergence: decided, power, error, growth; nan without a solution.

    decided: the comparison of shapes names one. power: the power of 1/log t, with its error.
    growth: the largest D/bound in the late half of the window over that in the early half.
    """
    if not np.isfinite(away).all():
        return {"decided": False, **dict.fromkeys(("power", "error", "growth"), np.nan)}
    tail = _TAIL.get(p, 0.5)
    found = compare(clock, away, shapes=_COMPARED, clock="log t", tail=tail)
    power = fit(clock, away, "(log t)^-a", clock="log t", tail=tail)
    seen = clock >= power.window[0]
    ratio = np.log(away[seen]) - _bound(p, clock[seen])
    late = clock[seen] > np.mean(power.window)
    return {
        "decided": found.decided,
        "power": float(power.exponent or 0.0),
        "error": float(power.exponent_error or 0.0),
        "growth": float(np.exp(ratio[late].max() - ratio[~late].max())),
    }


def checks(table: Table, thresholds: Any) -> Checks:
    """The power of 1/log t is at least the bound's, where the fits say that it can be read off."""
    runs = table.drop_duplicates(["p", "seed"])
    local = runs[runs.local]
    found: list[Check] = []
    for p, (bound, exponent) in BOUNDS.items():
        here = local[local.p == p]
        # A run without a certified solution counts as one without a power.
        powers = here[here.decided | here.power.isna()]
        found += [
            at_least(f"p = {p}: least power of 1/log t, less two errors",
                     (powers.power - 2 * powers.error).min(skipna=False), exponent),
            at_most(f"p = {p}: largest growth of D/[{bound}] over the late half",
                    here[here.decided].growth.max(skipna=False), 1.0),
        ]  # fmt: skip
    gap = table.gap.max(skipna=False)
    yield from [*found, at_most("largest certified gap", gap, 1e-6)]
    judged = int(local.decided.sum())
    early = int((local.power.notna() & ~local.decided).sum())
    unread = [p for p in BOUNDS if not local[local.p == p].decided.any()]
    yield Premises(
        0 if unread else judged,
        f"of {len(runs)} runs {judged} are judged: {len(runs) - len(local)} end at tokens that are "
        f"not certified locally optimal, {early} are not yet asymptotic; flow time of normalized "
        "steps, not step numbers",
        gap,
    )
    if unread:
        yield Note(f"No law can be read off the runs of p = {', '.join(unread)}.")
    elif all(check.met is not False for check in found) and gap <= 1e-6:
        yield Note(_FASTER)


_FASTER = (
    "The statement is on steps of constant size, whose log t ends near 14; here t is the time of "
    "mirror flow along a normalized run, which ends near e^200, and for p = 1.1 beyond e^6,000. "
    "There the divergence falls faster than the bounds, about like (log t)^−2 for p ≥ 2 and "
    "(log t)^−2(p−1) below: the bounds are not tight here."
)

STUDY = Study(
    id="C.mirror-rates",
    title="Rates of mirror descent's direction",
    kind="theorem",
    source="from memory",
    statement="The directional divergence of ℓp mirror descent from the ℓp solution of the locally "
    "optimal tokens it selects is O(log log t/log t) for p > 2, O((log log t)²/log t) for p = 2 "
    "and O((log t)^−(p−1)) for 1 < p < 2.",
    family=published_family,
    grid={"p": list(BOUNDS)},
    run={"lr": 0.1, "steps": 8000},
    seeds=6,
    first=1,
    group=3,
    measure=measure,
    checks=checks,
    quick={"seeds": 3, "run": {"steps": 1500}},
    figure={
        "kind": "scatter",
        "x": "clock",
        "y": {"divergence": "divergence", "bound": "stated bound"},
        "panels": "p",
        "log": "xy",
        "xlabel": "log of the flow time",
        "ylabel": "directional divergence",
    },
)

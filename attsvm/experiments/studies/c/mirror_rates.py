"""C: how fast the direction of mirror descent converges, on the clock of the flow.

Normalized mirror descent, u ← u − η g/‖g‖_q, follows the curve of mirror flow, du/dt = −g, at
another speed: each step takes the flow the time η/‖g‖_q. The log of the sum of these times is
what the rates are functions of; it reaches hundreds where a run of constant steps has 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, selected_by
from attsvm.experiments.studies.shared.mirror_runs import norm_name, thinned
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.study import (
    Check,
    Found,
    Note,
    Premises,
    Study,
    at_least,
    at_most,
    info,
)
from attsvm.experiments.table import joined
from attsvm.norms import Norm, norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.measures import bregman
from attsvm.theory.optima import optimality
from attsvm.theory.rates import SHAPES, compare, fit
from attsvm.training.heads import head_of
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, evaluate
from attsvm.training.path import Path

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_COMPARED = ("1/log t", "log log t/log t", "(log log t)^2/log t", "(log t)^-a", "t^-a")
# The stated bounds, and the power of 1/log t in each.
BOUNDS = {
    "1.1": ("(log t)^-0.1", 0.1),
    "1.75": ("(log t)^-0.75", 0.75),
    "2": ("(log log t)^2/log t", 1.0),
    "3": ("log log t/log t", 1.0),
}

# The share of log t that is looked at, where it is not the last half: near p = 1 log t grows by
# decades within a run, and its last half has few records.
_TAIL = {"1.1": 0.9}
# The log of the flow time from which on a run is looked at.
_FROM = 2.0


def step_sizes(p: float, lr: float) -> Any:
    """The schedule (t + 1)^(p − 2) lr^(p − 2), as a function of the step.

    With step sizes lr times it, the dual variable grows like (lr t)^(p − 1), so the weights grow
    like lr t in every exponent, and no step is large beside them.
    """
    return lambda step: (lr * (step + 1.0)) ** (p - 2)


def log_slope(found: Evaluation, block: str, norm: Norm) -> Floats:
    """log ‖g‖_dual (R,) of one block of the gradients of a stack."""
    G = found.gradient.direction[block]
    sizes = [float(norm.dual(g if g.ndim == 2 else g[:, None])) for g in G]
    return np.log(sizes) + found.gradient.log_scale[block]


def flow_clock(steps: Ints, log_rate: Floats) -> Floats:
    """log of the flow time at each record, −inf at the first, from log(η/‖g‖) at the records.

    Between records log(η/‖g‖) is taken as straight in the step, which it nearly is:
    ∫ e^(a + (b − a)s) ds over n steps = n (e^b − e^a)/(b − a).
    """
    low, rise = np.minimum(log_rate[:-1], log_rate[1:]), np.abs(np.diff(log_rate))
    safe = np.maximum(rise, 1e-9)
    part = np.log(np.diff(steps)) + low + safe + np.log(-np.expm1(-safe)) - np.log(safe)
    return np.concatenate([[-np.inf], np.logaddexp.accumulate(part)])


def linear(tokens: Tokens, v: Floats) -> Tokens:
    """The linear model beside it: the best token of each input alone, so that attention is 1."""
    best = Selection.best(tokens, v).indices
    return Tokens(np.asarray(tokens.X)[np.arange(tokens.n), best][:, None], labels=tokens.labels)


def measure(group: Group, p: str, lr: float, steps: int) -> dict[str, Any]:
    """Attention from W = 0, and logistic regression from 0: clock, divergence and law of each.

    A row for each record that is kept. clock: log of the flow time; local: the run ends at tokens
    that are certified locally optimal; the others are those of `_law`, nan without a solution.
    """
    given = {
        "optimizer": f"nmirror:{p}",
        "lr": lr,
        "steps": steps,
        "schedule": step_sizes(float(p), lr),
    }
    attention = train(group.tokens, head=group.heads, **given)
    ends = [
        Selection.of(t, selected_by(t, W))
        for t, W in zip(group.tokens, attention.weights["W"][-1], strict=True)
    ]
    posed = [Problem.of(t, keep) for t, keep in zip(group.tokens, ends, strict=True)]
    local = [
        bool(optimality(t, keep, v, norm_name(p)).locally)
        for t, keep, v in zip(group.tokens, ends, group.heads, strict=True)
    ]
    # With one token per input the decoder alone moves: this is logistic regression.
    lines = [linear(t, v) for t, v in zip(group.tokens, group.heads, strict=True)]
    labels = [Problem.of_labels(t, Selection.of(t, [0] * t.n)) for t in lines]
    logistic = train(lines, model="joint-prompt", **given)
    blocks = []
    for name, path, stack, solved in (
        ("attention", attention, group.tokens, posed),
        ("logistic regression", logistic, lines, labels),
    ):
        best = solve_many(solved, norm_name(p))
        heads = group.heads if name == "attention" else None
        for b, (clock, away) in enumerate(curves(path, stack, heads, best, p, lr)):
            keep = thinned(clock)
            about = {
                "seed": group.seeds[b],
                "method": name,
                "local": name != "attention" or local[b],
                **_law(clock, away, p),
                "end": clock[-1],
                "gap": float(best[b].gap),
            }
            columns = {key: np.full(len(keep), value) for key, value in about.items()}
            blocks.append({**columns, "clock": clock[keep], "divergence": away[keep]})
    return joined(blocks, "mirror rates")


def curves(
    path: Path, tokens: Sequence[Tokens], heads: Floats | None, best: list[Certificate], p: str,
    lr: float,
) -> Iterator[tuple[Floats, Floats]]:  # fmt: skip
    """(log flow time, divergence) of each instance of a run of attention, or without heads of
    logistic regression."""
    norm, sizes = norm_of(norm_name(p)), step_sizes(float(p), lr)
    rate = np.log([lr * sizes(int(step)) for step in path.steps])
    block = "v" if heads is None else "W"
    for b, t in enumerate(tokens):
        x = path.weights[block][:, b]
        found = evaluate(
            model_of("joint-prompt" if heads is None else "weight"),
            {"p": np.zeros_like(x), "v": x} if heads is None else {"W": x},
            Batch.of([t] * len(x)),
            None if heads is None else head_of(heads[b], t.d),
            loss_of("logistic"),
        )
        clock = flow_clock(path.steps, rate - log_slope(found, block, norm))
        target = best[b].W
        known = target is not None and np.isfinite(best[b].gap)
        W = x[..., None] if heads is None else x
        away = np.asarray(bregman(W, target, float(p))) if known else clock * np.nan
        seen = clock > _FROM
        yield clock[seen], away[seen]


def _bound(p: str, clock: Floats) -> Floats:
    """The log of the stated bound of exponent p."""
    name, exponent = BOUNDS[p]
    return SHAPES[name].s(clock) if name in SHAPES else -exponent * np.log(clock)


def _law(clock: Floats, away: Floats, p: str) -> dict[str, Any]:
    """The law of a divergence: known, decided, log_law, power, error, growth.

    decided: the comparison of shapes names one, log_law: it is a power of log t. power: the power
    of 1/log t, with its error. growth: the largest D/bound in the late half of the window over
    that in the early half.
    """
    if not np.isfinite(away).all():
        none = dict.fromkeys(("known", "decided", "log_law"), False)
        return {**none, "power": np.nan, "error": np.nan, "growth": np.nan}
    tail = _TAIL.get(p, 0.5)
    found = compare(clock, away, shapes=_COMPARED, clock="log t", tail=tail)
    power = fit(clock, away, "(log t)^-a", clock="log t", tail=tail)
    seen = clock >= power.window[0]
    ratio = np.log(away[seen]) - _bound(p, clock[seen])
    late = clock[seen] > np.mean(power.window)
    return {
        "known": True,
        "decided": found.decided,
        "log_law": found.verdict == "(log t)^-a",
        "power": float(power.exponent or 0.0),
        "error": float(power.exponent_error or 0.0),
        "growth": float(np.exp(ratio[late].max() - ratio[~late].max())),
    }


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """The power of 1/log t is at least the bound's, where the fits say that it can be read off."""
    once = table.drop_duplicates(["p", "seed", "method"])
    runs, lines = once[once.method == "attention"], once[once.method != "attention"]
    local = runs[runs.local]
    found: list[Check] = []
    for p, (bound, exponent) in BOUNDS.items():
        here = local[local.p == p]
        decided = here[here.decided]
        # A run without a certified solution counts as one without a power.
        powers = here[here.decided | ~here.known]
        beside = lines[(lines.p == p) & lines.known]
        found += [
            at_least(f"p = {p}: least power of 1/log t, less two errors",
                     (powers.power - 2 * powers.error).min(skipna=False), exponent),
            at_most(f"p = {p}: largest growth of D/[{bound}] over the late half",
                    decided.growth.max(skipna=False), 1.0),
            info(f"p = {p}: median power of 1/log t", powers.power.median(skipna=False)),
            info(f"p = {p}: the same for logistic regression", beside.power.median()),
            info(f"p = {p}: runs whose law is a power of log t", decided.log_law.sum()),
            info(f"p = {p}: median log flow time at the end", here[here.known].end.median()),
        ]  # fmt: skip
    gap = table.gap.max(skipna=False)
    yield from [*found, at_most("largest certified gap", gap, 1e-6)]
    judged = int(local.decided.sum())
    unread = [p for p in BOUNDS if not local[local.p == p].decided.any()]
    yield Premises(
        0 if unread else judged,
        f"of {len(runs)} runs {judged} are judged: {len(runs) - len(local)} end at tokens that are "
        f"not certified locally optimal, {int((local.known & ~local.decided).sum())} are not yet "
        "asymptotic; flow time of normalized steps, not step numbers",
        gap,
    )
    if unread:
        yield Note(f"no law can be read off the runs of p = {', '.join(unread)}")
    elif all(check.met is not False for check in found) and gap <= 1e-6:
        yield Note(_FASTER)


def figure(table: DataFrame, study: Study) -> Figure:
    """Divergence over the log of the flow time, attention and linear model, with the bounds."""
    from attsvm.plotting.studies import CYCLE, panels

    drawn, axes = panels(2, rows=2, sharey=True)
    for ax, (p, (bound, _)) in zip(axes, BOUNDS.items(), strict=True):
        runs = table[table.p == p]
        for colour, (name, of) in zip(CYCLE, runs.groupby("method", sort=False), strict=False):
            for k, (_, rows) in enumerate(of.groupby("seed")):
                ax.loglog(rows.clock, rows.divergence, color=colour, linewidth=1,
                          label=name if k == 0 else None)  # fmt: skip
        clock = np.geomspace(10, max(10.0, runs.clock.max()), 50)
        ax.loglog(clock, np.exp(_bound(p, clock)), "k--", linewidth=1, label=f"bound {bound}")
        square = 2 * min(float(p) - 1, 1.0)
        ax.loglog(clock, clock**-square, ":", color="#888888", label=f"(log t)^−{square:g}")
        ax.set(xlabel="log of the flow time t", title=f"p = {p}")
        ax.legend(frameon=False, fontsize=7.5, loc="lower left")
        ax.set_ylabel("directional divergence D")
    return drawn


_FASTER = (
    "The statement is on steps of constant size, whose log t ends near 14. Here t is the time of "
    "mirror flow along a normalized run, which ends near e^200, and for p = 1.1 beyond e^6,000: "
    "near p = 1 the weights are the tenth power of what descends. On it the divergence falls "
    "faster than the bounds, about like (log t)^−2 for p ≥ 2 and (log t)^−2(p−1) below, also for "
    "p = 1.1, in attention as in logistic regression with the same optimizer: the bounds are "
    "not tight "
    "here."
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
    figure=figure,
    reference="julistiono2024mirror",
)

"""A: the published examples of a few inputs: one prompt from several starts, by several losses and
optimizers, and a prompt with its decoder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.datasets import EXAMPLES
from attsvm.experiments import group as groups
from attsvm.experiments.group import Drawn, Group, Parts, cosine, cosines, selected_by
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import relaxed
from attsvm.theory.optima import verdict_on
from attsvm.theory.regularization_path.paths import regpath

# The second coordinates of the published starts; the others are 0.
STARTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)


def example_starts(seeds: Sequence[int], example: str, reach: float = 0.0, edge: int = 0) -> Drawn:
    """The example once for each seed, which counts the starts, for `init = "drawn"`.

    The published starts come first, then a square grid of `edge` starts a side with coordinates up
    to `reach`.
    """
    arrays = EXAMPLES[example]()
    tokens = Tokens(arrays["X"], keys=arrays.get("keys"), labels=arrays["y"])
    side = np.linspace(-reach, reach, edge)
    starts = [(0.0, c, 0.0) for c in STARTS] + [(x, y, 0.0) for y in side for x in side]
    heads = np.stack([arrays["v"]] * len(seeds))
    return Drawn([tokens] * len(seeds), heads, starts={"p": np.array(starts)[list(seeds)]})


def thinned(steps: Ints, early: int, most: int = 60) -> Ints:
    """The places of at most so many records, those up to the step `early` before others."""
    some, late = np.flatnonzero(steps <= early), np.flatnonzero(steps > early)
    some = some[groups.thinned(some, 2 * most // 3)]
    return np.concatenate([some, late[groups.thinned(late, most // 3)]])


# ---------------------------------------------------------------- one input, and three


def measure_one(group: Group) -> Parts:
    """A row for each published start and record, and one for the end of each start of the grid.

    token: the one that p selects; end: the one at the last record, ray its certified direction;
    local: whether token is locally optimal, and local_tokens how many are; cosine: to its certified
    direction; half_square: ½‖p‖² of the best token's problem.
    """
    path, tokens = group.path, group.tokens[0]
    each = [Selection.of(tokens, [t]) for t in range(tokens.T)]
    best = [solve(Problem.of(tokens, one)) for one in each]
    kinds = [verdict_on(tokens, one, group.heads[0], c) for one, c in zip(each, best, strict=True)]
    local = np.array([kind.locally is True for kind in kinds])
    some, parts = thinned(path.steps, 200), []
    for b, seed in enumerate(group.seeds):
        places = some if seed < len(STARTS) else some[-1:]
        p = path.weights["p"][places, b]
        token = selected_by(tokens, p[..., None])[:, 0]
        ray = np.asarray(best[token[-1]].W)[:, 0]
        parts.append({
            "seed": seed, "step": path.steps[places], "p1": p[:, 0], "p2": p[:, 1],
            "token": token, "end": token[-1], "ray1": ray[0], "ray2": ray[1],
            "local": local[token], "local_tokens": local.sum(),
            "cosine": [cosine(x[:, None], best[t]) for x, t in zip(p, token, strict=True)],
            "half_square": float(best[0].upper) ** 2 / 2,
            "gap": max(float(c.gap) for c in best),
        })  # fmt: skip
    return parts


def checks_one(table: Table, thresholds: Any) -> Checks:
    """Every start ends at the token that is named, in its certified direction."""
    last = table[table.step == table.step.max()]
    ends, grid = last[last.seed < len(STARTS)], last[last.seed >= len(STARTS)]
    known, wanted = ends.iloc[0], thresholds["ends"]
    yield equals("starts that end at the token named", (ends.token == wanted).sum(), len(wanted))
    yield at_least("least cosine to the certified direction", ends.cosine.min(), 0.9994)
    yield equals("½‖p‖² of the best token", known.half_square, 0.49505, within=5e-6)
    yield equals("locally optimal tokens", known.local_tokens, len(set(wanted)))
    yield equals("grid starts whose end is not locally optimal", (~grid.local).sum(), 0)
    yield Premises(len(last), f"{len(ends)} published starts, {len(grid)} of a grid")


def measure_three(group: Group) -> Parts:
    """A row for each start and record: p, its cosine to p^mm, and whether it selects the best.

    planar, whole: ½‖p‖² of the problems with the keys of training and with identity keys; ray: the
    solution of the former.
    """
    path, tokens, best = group.path, group.tokens[0], group.best[0]
    places = thinned(path.steps, 200)
    unplanar = example_starts([0], "multi-input").tokens[0]
    planar = solve(Problem.of(tokens, best))
    whole = solve(Problem.of(unplanar, Selection.best(unplanar, group.heads[0])))
    ray = np.asarray(planar.W)[:, 0]
    return [
        {
            "seed": seed, "step": path.steps[places], "p1": p[:, 0], "p2": p[:, 1],
            "cosine": cosines(p, planar),
            "right": (selected_by(tokens, p[..., None]) == best).all(axis=1),
            "ray1": ray[0], "ray2": ray[1],
            "planar": float(planar.upper) ** 2 / 2, "whole": float(whole.upper) ** 2 / 2,
            "gap": max(float(planar.gap), float(whole.gap)),
        }
        for seed, p in zip(group.seeds, path.weights["p"][places].swapaxes(0, 1), strict=True)
    ]  # fmt: skip


def checks_three(table: Table, thresholds: Any) -> Checks:
    """Every start selects the best tokens in the certified direction; the objectives are known."""
    ends = table[table.step == table.step.max()]
    known = ends.iloc[0]
    yield equals("starts that select the best tokens", ends.right.sum(), len(ends))
    yield at_least("least cosine to the certified direction", ends.cosine.min(), 0.9994)
    yield equals("½‖p‖² with the keys of training", known.planar, 0.37134, within=5e-6)
    yield equals("½‖p‖² with identity keys", known.whole, 0.31319, within=5e-6)
    yield Premises(len(ends), f"{len(ends)} published starts on the published draw")


# ---------------------------------------------------------------- optimizers and losses


def measure_growth(group: Group) -> dict[str, Any]:
    """A row for each record: ‖p‖, and log of the mean attention off the best tokens."""
    tokens, best = group.tokens[0], group.best[0]
    p = group.path.weights["p"][:, 0]
    logits = np.einsum("ntd,rd->rnt", np.asarray(tokens.keys), p)
    others = logits.copy()
    others[:, np.arange(tokens.n), best] = -np.inf
    off = np.logaddexp.reduce(others, axis=2) - np.logaddexp.reduce(logits, axis=2)
    return {
        "seed": group.seeds[0],
        "step": group.path.steps,
        "norm": np.linalg.norm(p, axis=1),
        "log_off": np.logaddexp.reduce(off, axis=1) - np.log(tokens.n),
    }


def _unexplained(x: Any, y: Any) -> float:
    """1 − R² of the straight line through y over x; nan where y does not change."""
    return float("nan") if np.ptp(y) == 0 else float(1 - np.corrcoef(x, y)[0, 1] ** 2)


def _slope(x: Any, y: Any) -> float:
    """The slope of the straight line through y over x."""
    return float(np.polyfit(x, y, 1)[0])


# A rate is accepted when it leaves unexplained at most this share of what the other rate does.
APART = 0.01


def checks_growth(table: Table, thresholds: Any) -> Checks:
    """Late ‖p‖ is straight in t and not in log t under ngd, and the other way round under gd.

    The margins grow with ‖p‖, so that attention off the best tokens falls exponentially in t under
    ngd and, with ‖p‖ ≈ ‖p^mm‖ log t, like 1/t under gd.
    """
    runs = {name: rows for name, rows in table.groupby("optimizer")}
    ngd, gd = (runs[name][runs[name].step >= thresholds["late"]] for name in ("ngd", "gd"))
    t, size, lost = (ngd[name].to_numpy(dtype=float) for name in ("step", "norm", "log_off"))
    yield equals("ngd: power of t in ‖p‖, late", _slope(np.log(t), np.log(size)), 1.0, within=0.02)
    yield at_most("ngd: unexplained by a line in t over that by one in log t, late",
                  _unexplained(t, size) / _unexplained(np.log(t), size), APART)  # fmt: skip
    way = ngd.lr.iloc[-1] * t[-1]
    yield equals("ngd: ‖p‖/(ηt) at the end", size[-1] / way, 1.0, within=0.02)
    yield at_most("ngd: log of the attention off the best tokens, unexplained by a line in t over "
                  "that by one in log t",
                  _unexplained(t, lost) / _unexplained(np.log(t), lost), APART)  # fmt: skip
    t, size, lost = (gd[name].to_numpy(dtype=float) for name in ("step", "norm", "log_off"))
    curve = _unexplained(np.log(t), size)
    yield at_most("gd: unexplained by a line in log t over that by one in t, late",
                  curve / _unexplained(t, size), APART)  # fmt: skip
    # A power of t has ‖p‖ straight in t^a; a logarithm has a → 0.
    yield at_most("gd: unexplained by a line in log t over that by one in t^(1/4), late",
                  curve / _unexplained(t**0.25, size), 0.1)  # fmt: skip
    yield equals("gd: power of 1/t in the attention off the best tokens",
                 -_slope(np.log(t), lost), 1.0, within=0.05)  # fmt: skip
    shown = thresholds["shown"]
    off = {name: rows.log_off[rows.step >= shown].iloc[0] for name, rows in runs.items()}
    yield at_most(f"ngd's attention off the best tokens over gd's, at step {shown}",
                  np.exp(off["ngd"] - off["gd"]), 0.1)  # fmt: skip
    yield Premises(2, "the published draw, both optimizers from p = 0")


def _gained(gain: float) -> Tokens:
    """Two inputs of two tokens, the good one of the first with this gain."""
    X = np.array([[[0.0, 0, 0], [1, 1, gain]], [[0, 0, 0], [1, -1, 1]]])
    return Tokens(X, keys=X * [1, 1, 0], labels=[1, 1])


def measure_losses(group: Group, loss: str, gains: Sequence[float], shown: int = 200) -> Parts:
    """A row for each gain and record, from p = 0, the first record from `shown` on among them.

    lead: the logit margin of the first input less that of the second, 2 p₂.
    """
    path = train([_gained(gain) for gain in gains], model="prompt", head=(0.0, 0.0, 1.0), loss=loss,
                 lr=0.1, steps=50_000)  # fmt: skip
    tokens = _gained(1.0)
    best = solve(Problem.of(tokens, [1, 1]))
    places = np.union1d(thinned(path.steps, 300), np.argmax(path.steps >= shown))
    return [
        {
            "seed": group.seeds[0],
            "gain": gain,
            "step": path.steps[places],
            "p1": p[:, 0],
            "lead": 2.0 * p[:, 1],
            "cosine": cosines(p, best),
            "right": (selected_by(tokens, p[..., None]) == 1).all(axis=1),
            "gap": float(best.gap),
        }
        for gain, p in zip(gains, path.weights["p"][places].swapaxes(0, 1), strict=True)
    ]


def limit_lead(loss: str, gain: float) -> float:
    """The lead at which both inputs pull p₂ equally, once attention is saturated.

    The pull of an input of gain c and margin m is c |ℓ'(c)| e^−m: the leads are log c for the
    linear loss and log c (1 + e)/(1 + e^c) for the logistic one, above and below 0 for c > 1.
    """
    if loss == "linear":
        return float(np.log(gain))
    return float(np.log(gain) + np.logaddexp(0.0, 1.0) - np.logaddexp(0.0, gain))


def checks_losses(table: Table, thresholds: Any) -> Checks:
    """All gains and losses end at (1, 0); on the way the linear loss leads the high-gain input."""
    ends = table[table.step == table.step.max()]
    for loss, rows in ends.groupby("loss", sort=False):
        yield at_least(f"{loss}: least cosine to (1, 0) at the end", rows.cosine.min(), 0.999)
        yield equals(f"{loss}: gains that select both tokens", rows.right.sum(), len(rows))
    # A gain of 1 leads nowhere. The others have made half of their way when they are shown, where
    # so many steps can make it: 2 |p₂| is at most twice their length.
    reach = thresholds["reach"]
    first = table.step[table.step >= thresholds["shown"]].min()
    for loss, side in (("linear", "high"), ("logistic", "low")):
        rows = table[(table.loss == loss) & (table.gain > 1)]
        early, late = rows[rows.step == first], rows[rows.step == table.step.max()]
        limits = np.array([limit_lead(loss, gain) for gain in late.gain])
        yield at_least(
            f"{loss}: least lead of the {side}-gain input, shown, as a share of its limit or of "
            "what the steps can reach",
            (early.lead / np.clip(limits, -reach, reach)).min(),
            0.5,
        )
        yield at_most(
            f"{loss}: largest error of the lead at the end, as a share of its limit",
            np.abs(late.lead / limits - 1).max(),
            0.01,
        )
    yield Premises(len(ends), f"{ends.gain.nunique()} gains, two losses, from p = 0")


# ---------------------------------------------------------------- prompt and decoder

# Radius of the decoder as a power of the prompt's, and the problem the prompt should meet.
CASES = {
    "tight, r = √R": ("joint-tight", 0.5, "whole"),
    "tight, r = R": ("joint-tight", 1.0, "whole"),
    "relaxed, r = √R": ("joint-relaxed", 0.5, "whole"),
    "relaxed, r = R": ("joint-relaxed", 1.0, "relaxed"),
}


def _given(name: str) -> tuple[Tokens, Selection, dict[str, Certificate]]:
    """The tokens of the example, the selection that is learned, and the solutions of the prompt's
    problem, whole and relaxed, and of the decoder's (labels)."""
    arrays = EXAMPLES[name]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    keep = Selection.of(tokens, arrays["alpha"])
    problems = {"whole": Problem.of(tokens, keep), "relaxed": relaxed(tokens, keep),
                "labels": Problem.of_labels(tokens, keep)}  # fmt: skip
    return tokens, keep, {part: solve(problem) for part, problem in problems.items()}


def _columns(p: Any, v: Any, given: Any) -> dict[str, Any]:
    """right: inputs of which p (R, d) selects the token; cosines of p and v to the solutions."""
    tokens, keep, best = given
    return {
        "right": (selected_by(tokens, p[..., None]) == keep.indices).sum(axis=1),
        "cosine_whole": cosines(p, best["whole"]),
        "cosine_relaxed": cosines(p, best["relaxed"]),
        "cosine_v": cosines(v, best["labels"]),
        "gap": max(float(c.gap) for c in best.values()),
    }


def descended(group: Group, example: str, problem: str) -> dict[str, Any]:
    """Normalized descent on p and v, each by its own norm, from the published start, by record;
    ray: the solution of the problem that p should meet."""
    arrays, given = EXAMPLES[example](), _given(example)
    init = {"p": arrays["p0"], "v": arrays["v0"]}
    path = train(given[0], model="joint-prompt", lr=0.1, steps=1000, init=init)
    places = thinned(path.steps, 200)
    p, v = path.weights["p"][places, 0], path.weights["v"][places, 0]
    best = given[2][problem].require()
    ray = np.asarray(best.W)[:, 0]
    return {
        "seed": group.seeds[0], "step": path.steps[places], "p1": p[:, 0], "p2": p[:, 1],
        **_columns(p, v, given),
        "ray1": ray[0], "ray2": ray[1], "half_square": float(best.upper) ** 2 / 2,
    }  # fmt: skip


def on_path(group: Group, case: str, radii: Sequence[float]) -> dict[str, Any]:
    """The least joint loss with ‖p‖ ≤ R, ‖v‖ ≤ r(R): a row for each radius; size_p, size_v: norms
    over their radii."""
    name, power, _ = CASES[case]
    given, R = _given(name), np.array(radii)
    path = regpath(given[0], model="joint-prompt", radii=radii, keep=given[1],
                   second=lambda R: R**power, starts=1)  # fmt: skip
    p, v = path.weights["p"], path.weights["v"]
    return {
        "seed": group.seeds[0],
        "radius": R,
        **_columns(p, v, given),
        "size_p": np.linalg.norm(p, axis=1) / R,
        "size_v": np.linalg.norm(v, axis=1) / R**power,
    }


def descent_checks(table: Table, thresholds: Any) -> Checks:
    """p ends in the direction that is named, v in that of its own problem."""
    end = table.iloc[-1]
    yield equals("inputs that select their second token", end.right, 3)
    yield at_least("cosine of p to its certified direction",
                   end[f"cosine_{thresholds['problem']}"], 0.999)  # fmt: skip
    yield at_least("cosine of v to its certified direction", end.cosine_v, 0.9999)
    off = end[["ray1", "ray2"]].to_numpy(dtype=float) - thresholds["limit"]
    yield at_most("distance of the certified p to the closed form",
                  float(np.linalg.norm(off)), 1e-8)  # fmt: skip
    yield equals("½‖p‖² of the certified p", end.half_square, thresholds["half_square"],
                 within=5e-6)  # fmt: skip
    if thresholds["problem"] == "relaxed":
        yield at_least("cosine to the relaxed less that to the unrelaxed p",
                       end.cosine_relaxed - end.cosine_whole, 0.01)  # fmt: skip
    yield Premises(1, "the published instance and start")


def path_checks(table: Table, thresholds: Any) -> Checks:
    """Each path ends in the direction its speed calls for; v in that of the label margin."""
    last = table[table.radius == table.radius.max()]
    for case, end in last.set_index("case").iterrows():
        target = CASES[str(case)][2]
        reached = end[f"cosine_{target}"] if end.right == 3 else np.nan
        yield at_least(f"{case}: cosine of p to the {target} problem", reached, 0.999)
        yield at_least(f"{case}: cosine of v", end.cosine_v, 0.999)
        yield equals(f"{case}: ‖p‖/R at the end", end.size_p, 1.0, within=1e-6)
        yield equals(f"{case}: ‖v‖/r(R) at the end", end.size_v, 1.0, within=1e-6)
    yield Premises(len(last), "both published instances; on the relaxed one an input supports "
                   "nothing, and the general form is judged all the same")  # fmt: skip


# ---------------------------------------------------------------- the studies

# 200 steps of each path in the plane, and the ray it should follow.
PLANE = {
    "kind": "paths",
    "where": lambda t: t.step <= 200,
    "x": "p1",
    "y": "p2",
    "each": "seed",
    "ray": ("ray1", "ray2"),
    "xlabel": "p₁",
    "ylabel": "p₂",
}
RUN = {"model": "prompt", "init": "drawn"}
_code = partial(Study, kind="figure", source="code", theorem="notebook", published=True)
_one = partial(
    _code,
    family=example_starts,
    seeds=len(STARTS) + 31**2,
    group=500,
    measure=measure_one,
    checks=checks_one,
    gap=1e-9,
    quick={"seeds": len(STARTS) + 15**2, "run": {"edge": 15}},
    figure={
        **PLANE,
        "where": lambda t: (t.seed < len(STARTS)) & (t.step <= 200),
        "lines": "end",
        "title": "First 200 steps, by the token at the end",
    },
    size="as published",
)
_descent = partial(
    _code,
    measure=descended,
    checks=descent_checks,
    gap=1e-9,
    figure={**PLANE, "title": "Prompt, 200 steps"},
    size="as published",
)

STUDIES = (
    _one(
        id="A.single-input-global",
        title="One input: all starts select the best token",
        statement="On the three-token instance whose other tokens tie, normalized descent on the "
        "prompt ends at the best token from every published start, in the direction of its "
        "max-margin problem.",
        run={**RUN, "example": "single-input-global", "reach": 2.5, "edge": 31},
        thresholds={"ends": [0] * 6},
    ),
    _one(
        id="A.single-input-local",
        title="One input: a second token becomes locally optimal",
        statement="With the third token's score at 0 the second token is locally optimal as well, "
        "and starts far enough on its side end there, in the direction of its own max-margin "
        "problem.",
        run={**RUN, "example": "single-input-local", "reach": 2.5, "edge": 31},
        thresholds={"ends": [0, 0, 0, 0, 1, 1]},
    ),
    _code(
        id="A.multi-input",
        title="Three inputs: one prompt selects the best token of each",
        statement="On the published three-input draw, normalized descent on the prompt selects the "
        "best token of every input from every published start and follows the max-margin "
        "direction.",
        family=example_starts,
        run={**RUN, "example": "multi-input-planar"},
        seeds=len(STARTS),
        measure=measure_three,
        checks=checks_three,
        gap=1e-9,
        figure={**PLANE, "title": "First 200 steps, from each start"},
        differs="The released notebook solves the problem with identity keys (½‖p‖² = 0.31319) "
        "although it trains with keys that drop the third coordinate. The direction in the plane "
        "is the same, since the third coordinate's gap is constant; the objective of the trained "
        "model's own problem is 0.37134. Both are certified here.",
        size="as published",
    ),
    _code(
        id="A.gd-against-ngd",
        title="Plain and normalized descent",
        statement="From the same start, the norm of the prompt grows about linearly under "
        "normalized descent and about logarithmically under plain descent, and attention saturates "
        "accordingly: what the best tokens lack falls exponentially in the step under the one and "
        "like its inverse under the other.",
        family=example_starts,
        grid={"optimizer lr": [("gd", 1.0), ("ngd", 0.1)]},
        run={"example": "multi-input-planar", "model": "prompt", "steps": 20_000},
        measure=measure_growth,
        checks=checks_growth,
        thresholds={"late": 1000, "shown": 200},
        quick={"run": {"steps": 5000}, "thresholds": {"late": 500}},
        figure={
            "kind": "curves",
            "where": lambda t: t.step > 0,
            "x": "step",
            "value": "norm",
            "lines": "optimizer",
            "log": "xy",
            "ylabel": "‖p‖",
        },
        size="as published, run on from 200 steps to 20,000",
    ),
    _code(
        id="A.loss-transients",
        title="Two losses, one limit",
        statement="The linear and the logistic loss share the limit (1, 0) whatever the gain of "
        "the first input, but on the way the linear loss favours the high-gain input and the "
        "logistic loss the low-gain one: by a margin of log c and of log (1 + e^c)/(c (1 + e)) for "
        "a gain of c, which stays while the norm grows.",
        grid={"loss": ["linear", "logistic"]},
        run={"gains": [*map(float, range(1, 11)), 100.0]},
        measure=measure_losses,
        checks=checks_losses,
        gap=1e-9,
        # Twice the way of 200 steps of 0.1.
        thresholds={"shown": 200, "reach": 40.0},
        quick={"run": {"gains": [1.0, 3.0, 10.0]}},
        figure={
            "kind": "paths",
            "where": lambda t: t.step <= 300,
            "x": "p1",
            "y": "lead / 2",
            "each": "gain",
            "lines": "gain",
            "panels": "loss",
            "level": 0.0,
            "xlabel": "p₁",
            "ylabel": "p₂ (above 0: the high-gain input leads)",
        },
        size="as published, run on from 1,000 steps to 50,000",
    ),
    _descent(
        id="A.joint-tight",
        title="Prompt and decoder: all inputs support the decoder",
        statement="Normalized descent on prompt and decoder together, with every selected token a "
        "support vector of the decoder, ends in both max-margin directions, the prompt's "
        "unrelaxed.",
        run={"example": "joint-tight", "problem": "whole"},
        thresholds={"problem": "whole", "limit": [4 / 3, 1 / 3], "half_square": 0.944444},
    ),
    _descent(
        id="A.joint-relaxed",
        title="Prompt and decoder: one input does not support the decoder",
        statement="When one selected token is no support vector of the decoder, the prompt of the "
        "published descent ends in the direction of the relaxed problem, which asks that input for "
        "a margin of 0 only, and not in that of the unrelaxed one.",
        run={"example": "joint-relaxed", "problem": "relaxed"},
        thresholds={"problem": "relaxed", "limit": [1.0, 0.0], "half_square": 0.5},
    ),
    Study(
        id="A.joint-path",
        title="Joint regularization path: the decoder's radius decides",
        kind="theorem",
        source="paper",
        statement="Minimising the logistic loss with ‖p‖ ≤ R and ‖v‖ ≤ r, both growing, where "
        "attention off the selected tokens costs label margin, v tends to the max-margin decoder "
        "and p to the prompt of least norm with a margin of 1 on the inputs that support the "
        "decoder and of 0 on the others. This is on the regularization path alone, and how r "
        "grows with R is not said.",
        grid={"case": list(CASES)},
        run={"radii": [1.0, 3.0, 10.0, 30.0, 100.0]},
        measure=on_path,
        checks=path_checks,
        gap=1e-9,
        quick={"run": {"radii": [3.0, 30.0]}},
        figure={
            "kind": "curves",
            "x": "radius",
            "value": {
                "1 - cosine_whole": "whole problem",
                "1 - cosine_relaxed": "relaxed problem",
            },
            "panels": "case",
            "log": "xy",
            "xlabel": "R",
            "ylabel": "1 − cosine of p",
        },
        differs="How r grows decides where an input does not support the decoder: with r = R the "
        "path ends at the relaxed solution, with r = √R at the unrelaxed one; both are judged. "
        "Strictly the premise leaves no such input: a little of its attention can go elsewhere at "
        "no cost in label margin.",
        theorem="slides",
        published=True,
    ),
)

"""B: with a ReLU or a quadratic head several tokens stay.

W is then proposed to be a finite part, which sets the ratios among them, plus a growing direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.majority import mostly
from attsvm.experiments.studies.shared.published import EPS, plain_run
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.studies.shared.staying_tokens import (
    CLEAR,
    HEADS,
    HIGH,
    PREDICTIONS,
    away_from,
    instances,
    kept_tokens,
    limit_of,
    off_sum,
    problems,
    water_level,
)
from attsvm.experiments.study import Check, Found, Note, Premises, Study, at_most, equals, info
from attsvm.norms import norm_of
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.training.heads import Head, Quadratic, Relu

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# A mean of fewer runs is not judged.
_LEAST = 5
# Records of a run in the table, at most.
_RECORDS = 24
_FIT = PREDICTIONS["least_squares"]
_ALONE = PREDICTIONS["direction"]


# ---------------------------------------------------------------- runs


def _moving(stack: list[Tokens], head: Head) -> list[int]:
    """The instances with a gradient at W = 0. Where no unit of a ReLU head sees any input there is
    none: W stays at zero, and the filter drops the run."""
    if not stack:
        return []
    pooled = np.stack([np.asarray(tokens.X).mean(axis=1) for tokens in stack])
    return np.flatnonzero(head.gradient(pooled).any(axis=(1, 2))).tolist()


def _kept(steps: Ints, last: int) -> list[int]:
    """The records that are kept: evenly spread ones, those nearest to half and all steps too."""
    spread = np.linspace(1, len(steps) - 1, _RECORDS).round().astype(int)
    judged = [int(np.abs(steps - part * last).argmin()) for part in (0.5, 1.0)]
    return sorted({*spread.tolist(), *judged})


def _descended(stack: list[Tokens], head: Head, loop: str, run: Any) -> tuple[Ints, Floats]:
    """The steps of the kept records and the weights there (R, B, d, d), from W = 0 by one loop."""
    last, d = run["steps"], stack[0].d
    if loop == "exact":
        path = train(stack, head=head, optimizer=run["optimizer"], lr=run["lr"], steps=last)
        keep = _kept(path.steps, last)
        return path.steps[keep], path.weights["W"][keep]
    steps = np.unique(np.geomspace(1, last, 4 * _RECORDS).round().astype(np.int64))
    steps = steps[_kept(steps, last)]
    start = np.zeros((len(stack), d, d))
    return steps, plain_run(stack, head, start, lr=run["lr"], marks=steps, eps=EPS)


def _solved(
    tokens: Tokens, head: Head, b: int, W: Floats
) -> tuple[Floats, Bools, dict[str, Certificate]] | None:
    """The attention under W, the tokens kept, and the solutions; None outside the premises."""
    s = attention(tokens, W)
    kept = kept_tokens(tokens, head, b, s)
    if kept is None:
        return None
    posed = problems(tokens, kept, limit_of(tokens, head, b, kept, s))
    return s, s >= HIGH, {part: solve(problem) for part, problem in posed.items()}


_BLANK: dict[str, Any] = {
    "accepted": False, "several": False, "step": -1, **dict.fromkeys(PREDICTIONS, np.nan),
    "unseen": False, "kink": False, "form": "", "paired": False, "before": np.nan, "same": False,
    "foretold": np.nan, "foretold_largest": np.nan, "gap": 0.0,
}  # fmt: skip


def measure(
    group: Group, head: str, loop: str, d: int, draws: int, n: int = 3, T: int = 4
) -> dict[str, Any]:
    """Descent from W = 0, and 1 − correlation of W with each prediction.

    Each seed stands for so many instances as `draws`, of seeds of their own. Rows "run" are of one
    instance each, at the end of its run where that is accepted: whether some input keeps several
    tokens; unseen: no unit of a ReLU head sees an input; kink: one rests on a kink; form: where the
    attention of a quadratic head is. paired: the run is accepted at half of the steps too; before:
    1 − correlation by least squares there; foretold: that of the end with the ratios of half the
    steps; same: the kept tokens are the same and several. Rows "record" follow runs with several
    kept tokens over the steps.
    """
    seeds = [seed * draws + k for seed in group.seeds for k in range(draws)]
    made, stack, given = instances(head, d, seeds, n, T)
    moving = _moving(stack, given)
    base = {"cell": f"{HEADS[head]}, {loop}, d = {d}", **_BLANK}
    rows = [{**base, "seed": seed, "row": "run"} for seed in seeds]
    place = {seed: row for seed, row in zip(seeds, rows, strict=True)}
    if moving:
        block = getattr(given, given.block)[moving]
        own = Quadratic(block, given.penalty) if isinstance(given, Quadratic) else Relu(block)
        stack = [stack[b] for b in moving]
        steps, W = _descended(stack, own, loop, group.run)
        half = int(np.abs(steps - 0.5 * group.run["steps"]).argmin())
        for b, tokens in enumerate(stack):
            end = _solved(tokens, own, b, W[-1, b])
            if end is None:
                continue
            seed = made[moving[b]]
            away = away_from(W[:, b], end[2])
            row = {"accepted": True, "several": end[2]["finite"].problem.ties > 0,
                   "gap": max(float(c.gap) for c in end[2].values()),
                   "step": steps[-1]}  # fmt: skip
            row |= {name: values[-1] for name, values in away.items()}
            if isinstance(own, Quadratic):
                row["form"] = _form(tokens, own.v[b], own.penalty, end)
            else:
                row["unseen"], row["kink"] = _seen(tokens, own.V[b], end[0])
                if loop == "exact":
                    row |= _paired(tokens, own, b, W[[half, -1], b], end)
            place[seed] |= row
            if row["several"]:
                rows += [
                    {**base, "seed": seed, "row": "record", "step": step,
                     **{name: np.maximum(values[r], 1e-9) for name, values in away.items()}}
                    for r, step in enumerate(steps)
                ]  # fmt: skip
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


_End = tuple[Floats, Bools, dict[str, Certificate]]


def _seen(tokens: Tokens, V: Floats, s: Floats) -> tuple[bool, bool]:
    """Whether an input is seen by no unit of the head, and whether one rests on a kink and none is
    unseen: tokens have length 1, a unit within 0.01 of changing sign in an input that mixes tokens.
    """
    units = np.einsum("nt,ntd->nd", s, np.asarray(tokens.X)) @ V
    unseen = bool((units <= 0).all(axis=1).any())
    mixes = (s >= HIGH).sum(axis=1) > 1
    near = np.abs(units) <= 0.01 * np.linalg.norm(V, axis=0)
    return unseen, bool(near[mixes].any()) and not unseen


def _paired(tokens: Tokens, head: Head, b: int, W: Floats, end: _End) -> dict[str, Any]:
    """What half of the steps, W[0], foretells of the end, W[1]."""
    half = _solved(tokens, head, b, W[0])
    if half is None:
        return {}
    finite, direction = half[2]["finite"].W, end[2]["direction"].W
    foretold = (np.nan, np.nan)
    if finite is not None and direction is not None:
        foretold = off_sum(W[1], np.asarray(finite), np.asarray(direction))
    several = end[2]["finite"].problem.ties > 0
    return {
        "paired": True,
        "before": away_from(W[:1], half[2])["least_squares"][0],
        "same": bool(several and (half[1] == end[1]).all()),
        "foretold": foretold[0],
        "foretold_largest": foretold[1],
    }


def _form(tokens: Tokens, v: Floats, penalty: float, end: _End) -> str:
    """Where attention is: at the closed form of "all" tokens, of a "part", or at "neither".

    A part is locally optimal when no token that is tight at its direction would raise the head:
    v·x − 2λ o·x is at most the level of the kept ones. Attention on a dropped token falls like
    1/(c η t), c ≥ CLEAR |ℓ'|/n, to below HIGH; T of them and the kept ones stay within 0.01.
    """
    s, kept, best = end
    if np.abs(s - water_level(tokens, v, penalty)).max() <= 0.01:
        return "all"
    own = water_level(tokens, v, penalty, among=kept)
    pull = np.asarray(tokens.X) @ v - 2 * penalty * own
    level = np.where(own > 0, pull, -np.inf).max(axis=1, keepdims=True)
    direction = best["direction"]
    rows = direction.problem.rows
    better = (pull > level)[rows[:, 0], rows[:, 2]]
    settled = np.abs(s - own).max() <= 0.01
    local = direction.W is not None and not (better & ~direction.tight.loose).any()
    return "part" if settled and local else "neither"


# ---------------------------------------------------------------- checks


def _far(what: str, runs: DataFrame) -> Check:
    """Of runs that keep several tokens: the top tokens' solution is far from most."""
    some = runs[runs.several]
    return mostly(f"{what}: {PREDICTIONS['one_token']} more than twice as far as {_ALONE}",
                  some.one_token > 2 * some.direction)  # fmt: skip


def _near(what: str, ends: Any, most: float, *, sure: bool = False) -> Check:
    """The mean against a published one, within three standard errors of ours and of theirs.

    sure: the mean and two of its standard errors are to be below.
    """
    if len(ends) < _LEAST:
        return info(f"{what}: runs judged, too few for a mean", len(ends))
    mean, error = float(ends.mean(skipna=False)), float(ends.sem(skipna=False))
    if sure:
        return at_most(f"{what}, and two standard errors", mean + 2 * error, most)
    error *= np.sqrt(1 + len(ends) / 500)
    return at_most(f"{what}, published {most:g}", mean, round(most + 3 * float(error), 4))


def checks_relu(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """The published means and the order of the predictions, by the released loop.

    The same in exact arithmetic, and whether it improves with the steps, is noted: it depends on
    the draw.
    """
    drawn = table[table.row == "run"]
    runs = drawn[drawn.accepted]
    gap = float(runs.gap.max()) if len(runs) else 0.0
    judged = list(_loop_checks("published", runs, thresholds))
    yield from judged
    yield at_most("largest certified gap", gap, norm_of("frobenius").tolerance)
    exact = runs[runs.loop == "exact"]
    for check in (*_loop_checks("exact", runs, thresholds), *_improves(exact)):
        yield info(check.what, check.seen)
    enough = any(check.met is not None for check in judged)
    yield Premises(
        int((runs.loop == "published").sum()) if enough else 0,
        f"{len(runs)} of {len(drawn)} runs accepted: some input drops a token, no attention lies "
        "between 1e-6 and 1e-3",
        gap,
    )
    yield Note(f"Judged is the released loop; {_whose(exact)}; {_why(exact)}")


def _loop_checks(loop: str, runs: DataFrame, thresholds: Any) -> Iterator[Check]:
    """The means of one loop, and which of its runs are far from the proposal."""
    pooled = runs[runs.loop == loop]
    for (head, d, cell), ends in pooled.groupby(["head", "d", "cell"], sort=False):
        what = f"{cell}: mean 1 − correlation"
        yield info(f"{cell}: runs judged", len(ends))
        yield _near(what, ends.least_squares, thresholds["away"][str(d)])
        if d >= thresholds["larger"] and head == "relu":
            yield _near(what, ends.least_squares, 0.01, sure=True)
    yield _far(loop, pooled)
    yield info(f"{loop}: runs with an input that no unit of the head sees at the end",
               pooled.unseen.sum())  # fmt: skip
    yield info(f"{loop}: runs with an input that rests on a kink of the ReLU, and none unseen",
               pooled.kink.sum())  # fmt: skip
    rest = pooled.least_squares[~pooled.unseen & ~pooled.kink]
    yield info(f"{loop}: largest 1 − correlation of the others", rest.max() if len(rest) else 0)


def _improves(runs: DataFrame) -> Iterator[Check]:
    """‖W‖ doubles from half of the steps to the end. If what is off the proposal stays bounded,
    1 − correlation falls to a quarter; it is asked to fall by half, in most runs. And the ratios of
    attention at half foretell W at the end better than the direction alone does."""
    pairs = runs[runs.paired]
    fell = pairs.least_squares < pairs.before / 2
    same = pairs[pairs.same]
    yield mostly("exact: 1 − correlation falls by half over the later half of the steps", fell)
    yield info("exact: of runs with every input seen, share in which it does",
               fell[~pairs.unseen].mean())  # fmt: skip
    yield mostly(f"exact: ratios of half the steps, {_FIT}, nearer than {_ALONE}",
                 same.foretold < same.direction)  # fmt: skip
    yield info("exact: median gain in correlation by ratios of half the steps, largest correlation",
               (same.direction - same.foretold_largest).median())  # fmt: skip


def _whose(runs: DataFrame) -> str:
    """Which runs are far from the proposal, in words."""
    if not len(runs):
        return "no run is accepted"
    far = runs[runs.least_squares > 0.05]
    unseen, kink = int(far.unseen.sum()), int(far.kink.sum())
    return (
        f"in exact arithmetic the mean 1 − correlation is {runs.least_squares.mean():.3f} over "
        f"all; of {len(far)} runs above 0.05, {unseen} have an input that no unit of the head sees "
        f"any more, {kink} rest on a kink of the ReLU, and {len(far) - unseen - kink} neither"
    )


def _why(runs: DataFrame) -> str:
    """In how many runs the correlation does not improve, in words."""
    pairs = runs[runs.paired]
    stay = pairs[~(pairs.least_squares < pairs.before / 2)]
    return (
        f"it does not fall by half over the later half of the steps in {len(stay)} of "
        f"{len(pairs)} runs, {stay.unseen.sum()} of them with an unseen input: the head is "
        "flat there, nothing holds the ratios of its tokens, and the proposal ties them all the "
        "same"
    )


def checks_quadratic(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Attention at a closed form, W near the proposal, and the order of the predictions.

    The logits of dropped tokens lie at R + log(γ-gap) instead of R, so that they spread by
    ½ log(2/CLEAR) to both sides at most, and R ≥ log(1/HIGH) once attention on them is below
    HIGH: the part of W off the proposal is about the ratio of the two.
    """
    off = 0.5 * np.log(2 / CLEAR) / np.log(1 / HIGH)
    most = round(0.5 * float(off) ** 2, 4)
    drawn = table[table.row == "run"]
    runs = drawn[drawn.accepted]
    for d, ends in runs.groupby("d"):
        yield info(f"d = {d}: runs judged", len(ends))
        for name in ("least_squares", "largest_correlation"):
            yield at_most(f"d = {d}: mean 1 − correlation, {PREDICTIONS[name]}",
                          ends[name].mean(skipna=False), most)  # fmt: skip
    some = runs[runs.several]
    yield mostly(f"{_FIT} nearer than {_ALONE}", some.least_squares < some.direction)
    yield _far("all", runs)
    yield info("median gain of the largest correlation over the direction's",
               (runs.direction - runs.largest_correlation).median())  # fmt: skip
    yield mostly("attention at the closed form", runs.form == "all")
    yield info("runs at the closed form of another, locally optimal set",
               (runs.form == "part").sum())  # fmt: skip
    lost = int((runs.form == "neither").sum())
    yield equals("runs at neither", lost, 0)
    gap = float(runs.gap.max()) if len(runs) else 0.0
    yield at_most("largest certified gap", gap, norm_of("frobenius").tolerance)
    yield Premises(
        len(runs) if len(runs) >= _LEAST else 0,
        f"{len(runs)} of {len(drawn)} instances judged: some input drops a token, no score lies "
        "within 0.05 of the level at which a token is dropped",
        gap,
    )
    if lost:
        yield Note(f"{lost} runs are at neither closed form")


# ---------------------------------------------------------------- studies


def figure(table: DataFrame, study: Study) -> Figure:
    """1 − correlation of the predictions over the steps, runs that keep several tokens."""
    from attsvm.plotting.studies import CYCLE, band, panels

    cells = list(table.groupby("cell", sort=False))
    columns = max(2, table.d.nunique())
    rows = -(-len(cells) // columns)
    size = (max(10.0, 3 * columns), 1.2 + 3.2 * rows)
    drawn, axes = panels(columns, rows=rows, sharey=True, figsize=size)
    for spare in axes[len(cells) :]:
        spare.set_axis_off()
    for place, (ax, (title, cell)) in enumerate(zip(axes, cells, strict=False)):
        curves = cell[cell.row == "record"]
        for k, (column, name) in enumerate(PREDICTIONS.items() if len(curves) else ()):
            runs = curves.pivot(index="step", columns="seed", values=column)
            band(
                ax, runs.index, runs, colour=CYCLE[k], label=name, linestyle=("-", ":", "-", "-")[k]
            )
        published = study.thresholds.get("away", {}).get(str(cell.d.iloc[0]))
        if published is not None and len(curves):
            ax.plot(curves.step.max(), published, "x", color=CYCLE[6], label="published mean")
        ax.set(xscale="log", yscale="log", xlabel="step")
        ax.set_title(f"{title}: {curves.seed.nunique()} runs", fontsize=8.5)
        if place % columns == 0:
            ax.set_ylabel("1 − correlation (median, middle half)")
    drawn.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=2
    )
    return drawn


RELU = Study(
    id="B.multi-token-relu",
    title="Several tokens stay: ReLU head",
    kind="figure",
    source="paper",
    statement="A proposal with experiments and no theorem: with the head h(o) = 1ᵀReLU(o), W is "
    "near W^fin + R W^mm, a finite part, which sets the ratios of attention among the tokens that "
    "stay, and a multiple of the max-margin direction that separates them from the others. The "
    "mean correlation is above 0.99 at larger d; the sum is nearer than the direction alone, and "
    "both are far nearer than the solution of the top tokens.",
    # As read, and as in the released code, with V Gaussian of length 1. draws: times as many
    # instances where fewer runs pass the filter.
    grid={
        "loop": ["published", "exact"],
        "head": ["relu", "relu-v"],
        "d draws": [(4, 1), (6, 1), (8, 2), (10, 4)],
    },
    run={"optimizer": "ngd", "lr": 0.1, "steps": 2000},
    seeds=100,
    measure=measure,
    checks=checks_relu,
    # The published readings, which are means; and the dimension from which on .99 is read.
    thresholds={"away": {"4": 0.035, "6": 0.017, "8": 0.011, "10": 0.0055}, "larger": 10},
    quick={"grid": {"d draws": [(4, 1)]}, "seeds": 60},
    figure=figure,
    differs="With the released loop the readings come out again, on each of five draws; with exact "
    "gradients it depends on the draw whether they do, so that is noted and not judged. It is not "
    "the fit: with the ratios of attention taken from the run itself, as in the released code, the "
    "finite part is the projection of W on the span of its ties, least squares and largest "
    "correlation are the same, and the sum is never farther than the direction alone: that "
    "comparison of the figure cannot fail. Here W at the end is compared with the ratios of half "
    "the steps. It is not the head: 1ᵀReLU(o), as read, and 1ᵀReLU(Vᵀo), as in the released code, "
    "are alike. It is the arithmetic: the released loop adds 2.2e-16 to the gradient's norm, which "
    "stops the runs at ‖W‖ near 70. Exact ones go on, and some turn away. A ReLU head is linear in "
    "pieces, so that several tokens of an input stay only on a kink or where no unit sees the "
    "input; there the head is flat, nothing holds the ratios of its tokens, and the ties of the "
    "proposal are not those of the limit. All runs far from it have such an input or a kink. Steps "
    "that decrease like 1/√t end alike. Runs start from W = 0; published starts are not seeded.",
    reference="tarzanagh2023svm",
    theorem="v1, Figure 8",
    size="about 10 of 500 accepted runs a dimension",
)

QUADRATIC = Study(
    id="B.multi-token-quadratic",
    title="Several tokens stay: quadratic head",
    kind="figure",
    source="paper",
    statement="A proposal with experiments and no theorem: with the head v·o − λ‖o‖² on "
    "orthonormal tokens, W is near W^fin + R W^mm, a finite part, which sets the ratios of "
    "attention among the tokens that stay, plus a multiple of their max-margin direction. "
    "Attention ends in most runs at the closed form (γ − ν)₊/(2λ), and in the others at that of "
    "another set which is locally optimal: no token that is tight at its direction would raise the "
    "head.",
    grid={"d": [4, 6, 8, 10]},
    run={
        "head": "quadratic",
        "loop": "exact",
        "draws": 1,
        "optimizer": "gd",
        "lr": 10.0,
        "steps": 20_000,
    },
    seeds=60,
    group=20,
    measure=measure,
    checks=checks_quadratic,
    quick={"grid": {"d": [4, 10]}, "seeds": 20, "run": {"steps": 8000}},
    figure=figure,
    differs="Published is one input of ten tokens, here are three of four. The released runs use "
    "constant normalized steps, which never settle inside the set of tokens that stay, and drop "
    "runs by a filter on attention, whose ratios they take for the limit: then the two fits are "
    "one and never farther than the direction alone. Here plain gradient descent is used, the "
    "limit is the closed form, and which runs are judged is known beforehand: none is dropped by "
    "its outcome. Ends at other sets are no want of steps: where three of 19 runs had them, a "
    "tenth of the step and five times as many led to the same ones.",
    reference="tarzanagh2023svm",
    theorem="v1, Figure 9",
    size="60 of 100 instances; n = 3, T = 4 for n = 1, T = 10",
)

STUDIES = (RELU, QUADRATIC)

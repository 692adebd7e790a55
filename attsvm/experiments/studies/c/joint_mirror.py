"""C: regularization paths in ℓp balls, and attention and decoder trained together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.experiments.group import (
    Group,
    Parts,
    cosines,
    divergence,
    evaluate_at,
    norm_name,
    selected_by,
    share,
    thinned,
)
from attsvm.experiments.studies.shared.published import published_family
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most, equals
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import support_inputs
from attsvm.theory.landscape import label_margin_constant
from attsvm.theory.regularization_path.excess import Excess
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.losses import loss_of

# ---------------------------------------------------------------- ℓp balls

# Of the exponent whose ball has the sharpest corners one instance in six, two radii and one start.
FEW = "1.1"


def measure_path(group: Group, p: str, multiples: list[float], starts: int) -> Parts:
    """The path of every instance, at radii that are multiples of the least norm.

    right: the best tokens are selected; residual: of stationarity in the ball; size: ‖W‖/R − 1;
    gain: log of the excess loss at the certified direction over that at W. A problem without a
    solution has one row.
    """
    few = p == FEW
    chosen = np.array([seed % 6 == 1 or not few for seed in group.seeds])
    best = group.solved(group.best, norm_name(p), where=chosen)
    rows: list[dict[str, Any]] = []
    for b in np.flatnonzero(chosen):
        about = {"seed": group.seeds[b], "gap": float(best[b].gap)}
        about |= {"separable": best[b].W is not None, "right": False}
        if best[b].W is None:
            rows.append(about)
            continue
        tokens, v = group.tokens[b], group.heads[b]
        reach = np.array(multiples[-2:] if few else multiples)
        path = regpath(tokens, norm=norm_name(p), head=v, radii=float(best[b].upper) * reach,
                       starts=1 if few else starts)  # fmt: skip
        excess = Excess.over(tokens, group.best[b], v, loss_of("logistic"))
        known = evaluate_at(tokens, v, reach[:, None, None] * np.asarray(best[b].W)).logs
        rows.append({
            **about,
            "multiple": reach,
            "right": (selected_by(tokens, path.weights["W"]) == group.best[b]).all(axis=1),
            "cosine": path.correlation,
            "share": path.share,
            "residual": path.residual,
            "size": path.size / path.radii - 1,
            "gain": np.array([excess(logs).log for logs in known]) - path.log_excess,
        })  # fmt: skip
    return rows


def checks_path(table: Table, thresholds: Any) -> Checks:
    """Stationary points of the ball, no worse than the certified direction, ending in it."""
    sure = table[table.separable]
    for p, rows in sure.groupby("p", sort=False):
        runs = rows.groupby("seed")
        first, end = runs.head(1).set_index("seed"), runs.tail(1).set_index("seed")
        yield equals(f"p = {p}: paths that select the best tokens", end.right.sum(), len(end))
        yield at_least(f"p = {p}: least cosine at the last radius", end.cosine.min(skipna=False),
                       thresholds["cosine"])  # fmt: skip
        yield at_least(f"p = {p}: least margin share at the last radius",
                       end.share.min(skipna=False), thresholds["share"])  # fmt: skip
        yield at_least(f"p = {p}: least gain in margin share, first to last radius",
                       (end.share - first.share).min(skipna=False), 0.0)  # fmt: skip
        yield at_most(f"p = {p}: largest stationarity residual in the ball",
                      rows.residual.max(skipna=False), 1e-6)  # fmt: skip
        yield at_most(f"p = {p}: largest | ‖W‖/R − 1 |", rows["size"].abs().max(skipna=False), 1e-9)
        yield at_least(f"p = {p}: least log gain in excess loss over the certified direction",
                       rows.gain.min(skipna=False), -1e-9)  # fmt: skip
    judged, total = (rows.groupby("p").seed.nunique().sum() for rows in (sure, table))
    yield Premises(int(judged), f"{judged} of {total} separable for the best tokens")


STUDY_BALL = Study(
    id="C.mirror-path",
    title="ℓp regularization path",
    kind="theorem",
    source="paper",
    statement="The minimiser of the loss over ‖W‖_p ≤ R, divided by R, tends to the normalized ℓp "
    "solution at the best tokens as R grows. This is paper B's theorem for any norm, with the ℓp "
    "norm.",
    family=published_family,
    grid={"p": [FEW, "1.75", "2", "3"]},
    run={"multiples": [1.0, 3.0, 10.0, 30.0, 100.0, 1000.0], "starts": 2},
    seeds=6,
    first=1,
    group=2,
    measure=measure_path,
    checks=checks_path,
    gap=1e-6,
    thresholds={"cosine": 0.999, "share": 0.99},
    quick={
        "seeds": 2,
        "grid": {"p": ["1.75", "2", "3"]},
        "run": {"multiples": [1.0, 30.0, 1000.0], "starts": 1},
    },
    figure={
        "kind": "curves",
        "x": "multiple",
        "value": {"1 - cosine": "direction", "1 - share": "margin"},
        "apart": True,
        "lines": "p",
        "where": {"separable": True},
        "log": "xy",
        "xlabel": "R / least norm",
        "ylabel": "1 − cosine, 1 − certified margin share",
    },
    reference="tarzanagh2023svm",
    theorem="B v1, Theorem 9",
)


# ---------------------------------------------------------------- attention and decoder

# The published instance: two inputs of three tokens in the plane.
X = [[[-2.7, 1.2], [1.4, 2.1], [1.3, -0.1]], [[0.4, -2.2], [-1.1, -0.4], [0.9, 0.1]]]
# The published selection of each exponent.
ALPHA = {"1.75": [1, 0], "2": [1, 0], "3": [0, 0]}
EXPONENTS = tuple(ALPHA)


def instance() -> Tokens:
    """The tokens: queries are the first tokens, labels +1 and −1."""
    return Tokens(X, queries="first", labels=[1, -1])


def problems(alpha: Sequence[int]) -> dict[str, Problem]:
    """The attention's and the decoder's problem at these tokens."""
    tokens = instance()
    keep = Selection.of(tokens, list(alpha))
    return {"W": Problem.of(tokens, keep), "v": Problem.of_labels(tokens, keep)}


def measure_joint(group: Group, p: str, lr: float, steps: int) -> Parts:
    """The run of one exponent from W = 0, v = 0, by record after the start.

    right: inputs that select the published token; W_to_q: divergences from the solutions of
    exponent q at the tokens of the end; cosine_W, cosine_v: with those of the run's exponent;
    attention on the published tokens and probability of the label, means; supported: all inputs
    support the decoder.
    """
    tokens = instance()
    path = train(tokens, model="joint-weight", optimizer=f"nmirror:{p}", lr=lr, steps=steps)
    places = thinned(path.steps, 60)[1:]
    W, v = path.weights["W"][places, 0], path.weights["v"][places, 0]
    alpha = selected_by(tokens, W[-1]).tolist()
    best = {
        part: {q: solve(problem, norm_name(q)) for q in EXPONENTS}
        for part, problem in problems(alpha).items()
    }
    s = np.array([attention(tokens, M) for M in W])
    f = np.einsum("rnt,ntd,rd->rn", s, np.asarray(tokens.X), v) * np.asarray(tokens.labels)
    support = support_inputs(tokens, Selection.of(tokens, alpha), norm=norm_name(p))
    columns: dict[str, Any] = {
        "seed": group.seeds[0],
        "step": path.steps[places],
        "right": (selected_by(tokens, W) == ALPHA[p]).sum(axis=1),
        "attention": s[:, np.arange(tokens.n), ALPHA[p]].mean(axis=1),
        "probability": (1 / (1 + np.exp(-f))).mean(axis=1),
        "supported": bool(support.all()),
        "cosine_W": cosines(W, best["W"][p]),
        "cosine_v": cosines(v, best["v"][p]),
        "gap": max(float(c.gap) for part in best.values() for c in part.values()),
    }
    columns |= {f"W_to_{q}": divergence(W, c, p) for q, c in best["W"].items()}
    return [columns]


def checks_joint(table: Table, thresholds: Any) -> Checks:
    """The published tokens; W and v at their solutions, W nearest to that of its own exponent.

    Two support inputs fix v in the plane, so its solutions of all exponents are the same.
    """
    ends = table.groupby("p", sort=False).tail(1).set_index("p")
    for p, end in ends.iterrows():
        yield equals(f"p = {p}: inputs that select the published token", end.right, len(X))
        for part in ("W", "v"):
            yield at_least(f"p = {p}: cosine of {part} to its ℓ{p} solution",
                           end[f"cosine_{part}"], thresholds["cosine"])  # fmt: skip
        others = np.min([end[f"W_to_{q}"] for q in EXPONENTS if q != p])
        yield at_least(f"p = {p}: least other divergence of W over the own",
                       others / end[f"W_to_{p}"], 1.0)  # fmt: skip
    supported = int(ends.supported.sum())
    yield Premises(
        supported,
        f"the published instance and start; all inputs support the decoder at the tokens of "
        f"{supported} of the {len(EXPONENTS)} runs, so the unrelaxed problem is the right one",
    )


STUDY_JOINT = Study(
    id="C.joint-mirror",
    title="Mirror descent on attention and decoder together",
    kind="figure",
    source="code",
    statement="On the published two-input instance, normalized mirror descent on W and v from zero "
    "selects the published tokens (others for p = 3 than for p = 1.75 and 2), and W and v end in "
    "the directions of the ℓp attention problem and of the ℓp margin problem of the labels.",
    grid={"p steps": [("1.75", 1500), ("2", 2000), ("3", 20_000)]},
    run={"lr": 0.1},
    measure=measure_joint,
    checks=checks_joint,
    gap=1e-8,
    # A run from zero grows slowest at p = 3, to about √(ηt) = 45. Logits off by about 1, the logs
    # of the weights' ratios, leave 1/45 across: 1 − cosine of 2.5e-4; four times that is allowed.
    thresholds={"cosine": 0.999},
    quick={"grid": {"p steps": [("1.75", 1000), ("2", 1000), ("3", 9000)]}},
    figure={
        "kind": "curves",
        "x": "step",
        "value": {
            "attention": "attention on the selected tokens",
            "probability": "probability of the label",
            "cosine_W": "cosine of W to its solution",
            "cosine_v": "cosine of v to its solution",
        },
        "apart": True,
        "lines": "p",
        "log": "x",
        "xlabel": "iteration",
        "ylabel": "",
    },
    theorem="notebook",
    size="as published",
    published=True,
)


def measure_joint_path(
    group: Group, p: str, radii: list[float], power: float, starts: int
) -> Parts:
    """The path of one exponent at the tokens of the largest label margin, by radius of W.

    cosine_, share_: of W and v with their certified solutions; size_: norms over the radii;
    inside: the premises hold, of which the label-margin constant is estimated from above.
    """
    tokens, norm = instance(), norm_of(norm_name(p))
    selections = [list(a) for a in product(range(tokens.T), repeat=tokens.n)]
    labels = [solve(problems(alpha)["v"], norm) for alpha in selections]
    k = int(np.argmin([c.upper for c in labels]))
    keep = Selection.of(tokens, selections[k])
    best = {"W": solve(problems(selections[k])["W"], norm), "v": labels[k]}
    path = regpath(
        tokens, model="joint-weight", norm=norm_name(p), radii=radii, keep=keep,
        second=lambda R: R**power, starts=starts,
    )  # fmt: skip
    nu = label_margin_constant(tokens, keep, norm=norm)
    inside = nu > 0 and bool(support_inputs(tokens, keep, norm=norm).all())
    columns: dict[str, Any] = {
        "seed": group.seeds[0],
        "radius": np.array(radii),
        "right": (selected_by(tokens, path.weights["W"]) == keep.indices).sum(axis=1),
        "inside": inside,
        "gap": max(float(c.gap) for c in best.values()),
    }  # fmt: skip
    matrices = {"W": path.weights["W"], "v": path.weights["v"][..., None]}
    sizes = {"W": np.array(radii), "v": np.array(radii) ** power}
    for part, given in matrices.items():
        columns[f"cosine_{part}"] = cosines(given, best[part])
        columns[f"share_{part}"] = np.array([share(M, best[part]) for M in given])
        columns[f"size_{part}"] = np.array([float(norm.value(M)) for M in given]) / sizes[part]
    return [columns]


def checks_joint_path(table: Table, thresholds: Any) -> Checks:
    """At the last radius W and v are at their certified directions, on the edge of their balls."""
    inside = 0
    for p, rows in table.groupby("p", sort=False):
        first, end = rows.iloc[0], rows.iloc[-1]
        if not end.inside:
            continue
        inside += 1
        yield equals(f"p = {p}: inputs that select the tokens of the largest label margin",
                     end.right, instance().n)  # fmt: skip
        for part, ball in (("W", "R"), ("v", "r")):
            yield at_least(f"p = {p}: cosine of {part}", end[f"cosine_{part}"],
                           thresholds["cosine"])  # fmt: skip
            yield at_least(f"p = {p}: margin share of {part}", end[f"share_{part}"],
                           thresholds["share"])  # fmt: skip
            yield equals(f"p = {p}: ‖{part}‖/{ball}", end[f"size_{part}"], 1.0, within=1e-6)
        yield at_most(f"p = {p}: 1 − cosine of W, last over first radius",
                      (1 - end.cosine_W) / (1 - first.cosine_W), 0.1)  # fmt: skip
    count = table.p.nunique()
    yield Premises(
        inside,
        f"{inside} of {count} exponents inside the premises: a positive label-margin constant, and "
        "every input supports the decoder, at the tokens of the largest label margin",
    )
    if inside < count:
        yield Note(
            "Outside the premises are the exponents whose decoder some input does not support, "
            "such as p = 1.1: the general form has a relaxed problem there, and with r = √R the "
            "path ends at the unrelaxed one all the same."
        )


STUDY_JOINT_PATH = Study(
    id="C.joint-mirror-path",
    title="Joint ℓp regularization path",
    kind="theorem",
    source="from memory",
    statement="Minimising the logistic loss over ‖W‖_p ≤ R and ‖v‖_p ≤ r with both radii growing, "
    "where any attention off the selected tokens costs label margin, v tends to the ℓp max-margin "
    "decoder and W to the ℓp attention solution when every selected token supports the decoder.",
    # The exponents of the published joint runs, and that of its runs on real data.
    grid={"p": ["1.1", *EXPONENTS]},
    run={"radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0], "power": 0.5, "starts": 3},
    measure=measure_joint_path,
    checks=checks_joint_path,
    gap=1e-6,
    thresholds={"cosine": 0.999, "share": 0.99},
    quick={"run": {"radii": [1.0, 30.0, 1000.0], "starts": 1}},
    figure={
        "kind": "curves",
        "x": "radius",
        "value": {"1 - cosine_W": "attention W", "1 - cosine_v": "decoder v"},
        "apart": True,
        "lines": "p",
        "log": "xy",
        "xlabel": "R (radius of v: √R)",
        "ylabel": "1 − cosine to the certified direction",
    },
    published=True,
)

STUDIES = (STUDY_BALL, STUDY_JOINT, STUDY_JOINT_PATH)

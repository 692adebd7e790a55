"""E: the norms of several heads, normalized together or each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.group import Drawn, Group, cosine, gaps_of, norms_of
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most, info
from attsvm.problem.tokens import Tokens

# Standard deviation of the first W_h.
START = 0.3


def heads_on_sphere(seeds: Sequence[int], n: int, T: int, d: int, H: int) -> Drawn:
    """x, z and a v for each of H heads uniform on the unit sphere, labels random signs; starts."""
    tokens, heads, starts = [], [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, n, T, d, H])
        X, z, v = (
            a / np.linalg.norm(a, axis=-1, keepdims=True)
            for a in map(rng.standard_normal, ((n, T, d), (n, d), (H, d)))
        )
        tokens.append(Tokens(X, queries=z, labels=rng.choice([-1.0, 1.0], n)))
        heads.append(v)
        starts.append(START * rng.standard_normal((H, d, d)))
    return Drawn(tokens, np.stack(heads), about={"start": np.stack(starts)})


def measure(group: Group, H: int) -> dict[str, Any]:
    """Each W_h against the solution of its own tokens, and how far the norms are from the ratio."""
    B, run = len(group), group.run
    W = group.drawn.about["start"]
    _, _, d, dq = W.shape
    together = run["model"] == "multi-head"
    path = train(
        group.tokens,
        model=run["model"],
        heads=H,
        head=group.heads,
        init={"W": W.reshape(B, H * d, dq)}
        if together
        else {f"W{h + 1}": W[:, h] for h in range(H)},
        lr=run["lr"],
        steps=run["steps"],
    )
    ends = path.matrices()[-1].reshape(B, H, d, dq)
    kept = path.selection.reshape(B, H, -1)
    solved = [group.solved(kept[:, h]) for h in range(H)]
    least = np.stack([norms_of(found) for found in solved], axis=1)
    norms = np.linalg.norm(ends, axis=(2, 3))
    near = [[cosine(W, c) for W, c in zip(ends[:, h], solved[h], strict=True)] for h in range(H)]
    return {
        "correlation": np.min(near, axis=0),
        "above": _above(norms / least if together else norms),
        "below": 1 / _above(norms / least if together else norms),
        "apart": _above(least),
        "alike": (kept == kept[:, :1]).all(axis=1).mean(axis=1),
        "settled": path.changed.max(axis=1) < run["steps"] / 10,
        "attention": path.top_attention[-1].min(axis=1),
        "gap": np.max([gaps_of(found) for found in solved], axis=0),
    }


def _above(values: Floats) -> Floats:
    """The largest ratio of two of the values (B, H)."""
    return np.asarray(values.max(axis=1) / values.min(axis=1))


def checks(table: Table, thresholds: Any) -> Checks:
    """Directions and ratios of every run, heads normalized together and each by itself.

    Judged at the short steps; at long ones the ratios are reported.
    """
    short = table.lr == table.lr.min()
    long, table = table[~short], table[short]
    wanted = {"multi-head": "normalized together, over N_h : N_h'", "split-heads": "each by itself"}
    for model, said in wanted.items():
        for H, rows in table[table.model == model].groupby("H"):
            yield at_least(
                f"{H} heads, {said.partition(',')[0]}: least correlation",
                rows.correlation.min(),
                thresholds["correlation"],
            )
            what = f"{H} heads, {said}: largest ratio of two norms"
            yield at_most(what, rows.above.max(), 1 + thresholds["ratio"])
            what = f"{H} heads, {said}: least ratio of two norms"
            yield at_least(what, rows.below.min(), 1 - thresholds["ratio"])
    yield info("median ratio of the least norms of two heads, the largest of a run",
               table.apart.median())  # fmt: skip
    yield info("share of inputs whose heads all select one token", table.alike.mean())
    yield info("runs whose selection changed in the last nine tenths", (~table.settled).sum())
    for model, rows in long.groupby("model"):
        said = f"{model}, steps of {rows.lr.max():g}"
        yield info(f"{said}: least correlation", rows.correlation.min())
        yield info(f"{said}: largest ratio of two norms", rows.above.max())
    decided = int((table.attention > 1 - 1e-3).sum())
    yield Premises(decided, f"{decided} of {len(table)} runs with attention above .999 everywhere")
    late = table[
        (table.correlation < thresholds["correlation"]) | (table.above > 1 + thresholds["ratio"])
    ]
    if len(late):
        yield Note(
            f"{len(late)} of {len(table)} runs miss a threshold, {int((~late.settled).sum())} of "
            "them with a selection that changed in the last nine tenths of the steps."
        )
    beyond = int((long[long.model == "split-heads"].above > 1 + thresholds["ratio"]).sum())
    if beyond:
        yield Note(
            f"Of {(long.model == 'split-heads').sum()} runs with each head normalized by itself "
            f"and steps of {long.lr.max():g}, {beyond} have norms further apart: a head whose "
            "steps alternate between two directions grows by less than their length at each one."
        )


STUDY = Study(
    id="E.head-norms",
    title="Directions and norms of several heads",
    kind="question",
    source="measured",
    statement="With f = Σ_h v_hᵀ X_iᵀ softmax(X_i W_h z_i) and normalized descent each W_h turns "
    "to the least Frobenius norm N_h at the tokens that its head selects. With one normalization "
    "over all heads ‖W_h‖ : ‖W_h'‖ tends to N_h : N_h', with each head normalized by itself to 1, "
    "if steps are short: the slopes of the loss tend to constants, so that the heads are one "
    "weight with rows in blocks.",
    family=heads_on_sphere,
    grid={
        "model": ["multi-head", "split-heads"],
        "H": [2, 4],
        "lr steps": [(0.1, 60_000), (1.0, 6000)],
    },
    run={"n": 4, "T": 5, "d": 8},
    seeds=100,
    first=1000,
    measure=measure,
    checks=checks,
    gap=1e-7,
    thresholds={"correlation": 0.999, "ratio": 0.02},
    quick={"seeds": 10, "grid": {"lr steps": [(0.1, 20_000), (1.0, 2000)]}},
    figure={
        "kind": "scatter",
        "x": "1 - correlation",
        "y": "above - 1",
        "lines": "model",
        "panels": "lr",
        "log": "xy",
        "xlabel": "1 − least correlation of a head",
        "ylabel": "largest ratio of two norms, over its limit, − 1",
    },
    reference="tarzanagh2023svm",
)

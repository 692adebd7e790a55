"""A: training the weight for a fixed prompt is training the prompt, step for step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.group import Drawn, Group
from attsvm.experiments.study import Checks, Premises, Study, Table, at_most
from attsvm.problem.tokens import Tokens


def family(seeds: Sequence[int], n: int, T: int, d: int) -> Drawn:
    """Random tokens whose inputs all have the same query a."""
    tokens, heads = [], []
    for seed in seeds:
        arrays = sphere_arrays(n, T, d, seed=seed)
        a = np.random.default_rng([seed, 1]).standard_normal(d)
        tokens.append(Tokens(arrays["X"], queries=np.tile(a, (n, 1)), labels=arrays["y"]))
        heads.append(arrays["v"])
    return Drawn(tokens, np.stack(heads))


def measure(group: Group, lr: float, steps: int) -> dict[str, Any]:
    """Plain descent on W for a fixed a with step η, and on q = W a with step η‖a‖².

    A row for each instance and record: the relative distances of W a from q, and of W from
    q aᵀ/‖a‖², and ‖q‖.
    """
    q = []
    queries = np.stack([tokens.queries[0] for tokens in group.tokens])
    for tokens, v, a in zip(group.tokens, group.heads, queries, strict=True):
        prompt = Tokens(tokens.X, labels=tokens.labels)
        step = lr * float(a @ a)
        twin = train(prompt, model="prompt", optimizer="gd", head=v, lr=step, steps=steps)
        q.append(twin.weights["p"][1:, 0])
    p = np.stack(q, axis=1)
    W = group.path.weights["W"][1:]
    rank_one = p[..., None] * (queries / (queries**2).sum(axis=1, keepdims=True))[:, None]
    size = np.maximum(np.linalg.norm(p, axis=2), 1e-300)
    spread = np.maximum(np.linalg.norm(rank_one, axis=(2, 3)), 1e-300)
    off = np.linalg.norm((W @ queries[:, :, None])[..., 0] - p, axis=2)
    return {
        "seed": np.tile(group.seeds, len(W)),
        "step": np.repeat(twin.steps[1:], len(group)),
        "distance_of_Wa": (off / size).ravel(),
        "distance_of_W": (np.linalg.norm(W - rank_one, axis=(2, 3)) / spread).ravel(),
        "norm": size.ravel(),
    }


def checks(table: Table, thresholds: Any) -> Checks:
    """W a = q and W = q aᵀ/‖a‖² at every record, to rounding."""
    yield at_most("largest relative distance of W a from q", table.distance_of_Wa.max(), 1e-12)
    yield at_most("largest relative distance of W from q aᵀ/‖a‖²", table.distance_of_W.max(), 1e-12)
    moved = table.norm[table.step == table.step.max()].min()
    yield at_most("1/‖q‖ at the end, largest", 1 / moved, 1e3)
    count = table.seed.nunique()
    yield Premises(count, f"{count} random instances, W(0) = 0, fixed a ≠ 0")


STUDY = Study(
    id="A.prompt-weight-equivalence",
    title="Training the weight is training the prompt",
    kind="theorem",
    source="derived",
    statement="For a fixed nonzero prompt a, plain descent on the weight moves along a only: q = W "
    "a follows plain descent on the prompt problem with step η‖a‖², and W = q aᵀ/‖a‖², at every "
    "step.",
    family=family,
    run={"n": 4, "T": 5, "d": 6, "optimizer": "gd", "lr": 0.1, "steps": 300},
    seeds=10,
    measure=measure,
    checks=checks,
    quick={"seeds": 3},
    figure={
        "kind": "curves",
        "x": "step",
        "value": ["distance_of_Wa", "distance_of_W"],
        "log": "xy",
        "level": 1e-12,
        "ylabel": "relative distance",
        "title": "Weight and prompt, step for step",
    },
)

"""E: the product of two diagonals turns to the least ℓ1 norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.families import sphere
from attsvm.experiments.group import Drawn, Group, gaps_of, share
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, info
from attsvm.problem.tokens import Tokens
from attsvm.training.models import Model
from attsvm.training.optimizers.optimizer import Blocks

NORMS = ("l1", "frobenius")


def _chain(params: Blocks, G: Floats) -> Blocks:
    """∇_k = g ⊙ q and ∇_q = g ⊙ k."""
    return {"k": G[:, :, 0] * params["q"], "q": G[:, :, 0] * params["k"]}


# The logit of a token is x·diag(k ⊙ q) z = (x ⊙ z)·(k ⊙ q): a prompt on the keys x ⊙ z.
DIAGONAL = Model(
    "diagonal",
    lambda d, dq, width, e: {"k": (d,), "q": (d,)},
    lambda params: (params["k"] * params["q"])[:, :, None],
    _chain,
    prompt=True,
    start="normal:0.1",
)


def diagonal(seeds: Sequence[int], n: int = 5, T: int = 4, d: int = 20) -> Drawn:
    """The unit-sphere family with equal scores, keys x ⊙ z."""
    drawn = sphere(seeds, n, T, d, equal_scores=True)
    tokens = [Tokens(t.X, keys=t.X * t.queries[:, None], labels=t.labels) for t in drawn.tokens]
    return Drawn(tokens, drawn.heads)


def measure(group: Group, model: str, deviation: float) -> dict[str, Any]:
    """The certified share of the best margin in both norms; of the vector trained as it is, too."""
    parts = ("k", "q") if model == "product" else ("p",)
    streams = [np.random.default_rng([seed, 17]) for seed in group.seeds]
    d = group.tokens[0].d
    init = {n: deviation * np.stack([rng.standard_normal(d) for rng in streams]) for n in parts}
    path = train(
        group.tokens, model=DIAGONAL if model == "product" else "prompt", head=group.heads,
        loss="exponential", lr=group.run["lr"], steps=group.run["steps"],
        init=init,
    )  # fmt: skip
    W = path.matrices(DIAGONAL if model == "product" else None)[-1]
    found = {norm: group.solved(group.best, norm) for norm in NORMS}
    return {
        **{
            f"share_{norm}": np.array([share(w, c) for w, c in zip(W, solved, strict=True)])
            for norm, solved in found.items()
        },
        "arrived": np.array([
            c.problem.margins(w).min() > 0 for w, c in zip(W, found["l1"], strict=True)
        ]),
        "gap": np.max([gaps_of(solved) for solved in found.values()], axis=0),
    }  # fmt: skip


def checks(table: Table, thresholds: Any) -> Checks:
    """The product in ℓ1, the vector itself in ℓ2."""
    ok = table[table.arrived]
    product, plain = (ok[ok.model == name] for name in ("product", "vector"))
    yield at_least("product: median share in ℓ1", product.share_l1.median(), 0.95)
    yield at_least("product: runs with a larger share in ℓ1 than in ℓ2, share",
                   (product.share_l1 > product.share_frobenius).mean(), 0.9)  # fmt: skip
    yield at_least("vector: runs with a larger share in ℓ2 than in ℓ1, share",
                   (plain.share_frobenius > plain.share_l1).mean(), 0.9)  # fmt: skip
    yield info("product: median share in ℓ2", product.share_frobenius.median())
    yield info("product: least share in ℓ1", product.share_l1.min())
    yield info("vector: median share in ℓ1", plain.share_l1.median())
    yield Premises(len(ok), f"{len(ok)} of {len(table)} runs end at the best tokens; the other "
                   "scores of an input are equal")  # fmt: skip
    if len(ok) < len(table):
        yield Note(f"{len(table) - len(ok)} runs end at other tokens and are not judged")


STUDY = Study(
    id="E.diagonal-l1",
    title="Diagonal factors and the ℓ1 norm",
    kind="question",
    source="derived",
    statement="Sheen, Chen, Wang and Zhou 2024 prove that gradient flow on diagonal K and Q with "
    "the exponential loss tends to the largest margin in ℓ1, from starts that are aligned with the "
    "data. Here normalized descent starts at random: the product k ⊙ q nearly attains the ℓ1 "
    "margin, and the vector itself, trained alike, the Euclidean one.",
    family=diagonal,
    grid={"model": ["product", "vector"]},
    run={"n": 5, "T": 4, "d": 20, "lr": 0.1, "steps": 40_000, "deviation": 0.1},
    seeds=40,
    measure=measure,
    checks=checks,
    gap=1e-6,
    quick={"seeds": 15},
    figure={
        "kind": "scatter",
        "x": "share_frobenius",
        "y": "share_l1",
        "lines": "model",
        "where": {"arrived": True},
        "diagonal": True,
        "xlabel": "share of the largest margin in ℓ2",
        "ylabel": "share of the largest margin in ℓ1",
    },
    reference="sheen2024flow",
)  # fmt: skip

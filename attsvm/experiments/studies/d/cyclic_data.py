"""D: sentences with several next tokens: ties inside components, margins between, a finite part."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.datasets.sentences import cyclic
from attsvm.experiments.group import Group, Parts, cosine
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most
from attsvm.next_token.infimum import finite_part
from attsvm.next_token.order import Order, orders
from attsvm.next_token.problems import certify_whole, solve_attention
from attsvm.next_token.sentences import Sentences
from attsvm.theory.measures import correlation

RUNS: dict[str, dict[str, Any]] = {
    "gradient descent": {"optimizer": "gd", "lr": 20.0, "steps": 30_000},
    "gradient descent, random start": {
        "optimizer": "gd", "lr": 20.0, "steps": 30_000, "init": "normal:0.3",
    },
}  # fmt: skip
# Records that are looked at: every sixth, eight a decade, and the last.
_EVERY = 6
# The step that ends are compared with.
_EARLY = 1000


def measure(group: Group, descent: str, vocabulary: int, contexts: int) -> Parts:
    """Direction, finite part and loss along one run with the readout mass.

    Each context is there under every label it can have, three of them at most.
    """
    rows = shared.LongTable()
    for seed in group.seeds:
        drawn = cyclic(vocabulary, 4, contexts, seed, group=3, copies=10)
        data = Sentences.of(drawn)
        found, E = orders(data), np.eye(data.vocabulary)
        best = certify_whole(found, E, solve_attention(found, E))
        part = finite_part(data, found)
        tied = any(not order.acyclic for order in found.values())
        path = train(data, model="next-token", readout="mass", **RUNS[descent])
        keep = np.unique([*range(0, len(path.steps), _EVERY), len(path.steps) - 1])
        steps, W = path.steps[keep], path.weights["W_kq"][keep, 0]
        direction = [cosine(w - part.W, best) for w in W]
        finite = correlation(np.stack([_inside(found, w) for w in W]), part.W)
        above = path.loss[keep, 0] - part.infimum
        early = int(np.searchsorted(steps, _EARLY))
        norms = np.linalg.norm(W[[early, -1]], axis=(1, 2))
        rows.add(seed, {
            "inside": bool(tied and part.components and best.W is not None and np.any(best.W)),
            "gap": best.gap,
            "residual": part.residual,
            "direction at the end": direction[-1],
            "finite part at the end": finite[-1],
            "norm over early": norms[1] / norms[0],
            "above at the end": above[-1],
            "least above": above.min(),
            "largest rise": np.diff(above).max(),
            "above over early": above[-1] / above[early],
        })  # fmt: skip
        rows.curve(seed, "1 − cos of the direction", steps, 1 - np.array(direction))
        rows.curve(seed, "1 − cos inside components", steps, 1 - np.array(finite))
        rows.curve(seed, "loss above its floor (nats)", steps, above)
    return rows


def _inside(found: dict[int, Order], W: Floats) -> Floats:
    """The part of W inside components: each component's entries less their mean."""
    out = np.zeros_like(W)
    for q, order in found.items():
        u = W[order.tokens, q]
        size = np.bincount(order.component)
        mean = np.bincount(order.component, u) / np.maximum(size, 1)
        out[order.tokens, q] = np.where(size[order.component] > 1, u - mean[order.component], 0.0)
    return out


def checks(table: Table, thresholds: Any) -> Checks:
    """Direction and finite part are reached by plain descent, and the loss tends to its floor."""
    every = shared.numbers_of(table)
    ok = every[every.inside == 1]
    sets, inside = every.drop_duplicates("seed"), ok.seed.nunique()
    for name in RUNS if inside else ():
        yield from _of_run(name, ok[ok.descent == name], thresholds)
    yield at_most("largest gradient left in the log-odds", every.residual.max(skipna=False), 1e-10)
    yield Premises(
        inside,
        f"{inside} of {len(sets)} sets have a query with a cycle and a solution that is not "
        "0; every sentence has one token that its label follows; tokens orthonormal, readout mass "
        "(convex)",
        every.gap.max(skipna=False),
    )


def _of_run(name: str, ends: Table, thresholds: Any) -> Checks:
    """What the theorem says of one run, over the sets inside."""

    def least(column: str) -> float:
        return float(np.min(ends[column].array))

    def most(column: str) -> float:
        return float(np.max(ends[column].array))

    yield at_least(f"{name}: least correlation of W − W_fin with the graph problem's solution",
                   least("direction at the end"), thresholds["correlation"])  # fmt: skip
    yield at_least(f"{name}: least correlation of the part inside components with the log-odds",
                   least("finite part at the end"), thresholds["correlation"])  # fmt: skip
    yield at_least(f"{name}: norm at the end over that at step 1,000, least",
                   least("norm over early"), 1.0)  # fmt: skip
    yield at_most(f"{name}: loss above its floor at the end (nats, largest)",
                  most("above at the end"), thresholds["excess"])  # fmt: skip
    yield at_least(f"{name}: loss above its floor, least over all records (never below it)",
                   least("least above"), -1e-12)  # fmt: skip
    yield at_most(f"{name}: largest rise of the loss from record to record", most("largest rise"),
                  1e-12)  # fmt: skip
    yield at_most(f"{name}: loss above its floor: end over step 1,000 (largest)",
                  most("above over early"), 0.3)  # fmt: skip


STUDY = Study(
    id="D.cyclic-data",
    title="Cyclic data: ties, margins, log-odds",
    kind="theorem",
    source="paper",
    statement="Theorem 2 of Li et al. 2024 (arXiv:2403.08081), not of paper D. When contexts have "
    "several next tokens, the priority graph of a query has cycles. Attention trained by plain "
    "descent from any start on −log of its mass on the label's token parts into a direction and a "
    "finite part: ‖W‖ → ∞ in the direction that solves the graph problem (ties inside strongly "
    "connected components, margins between them), and the part inside components tends to the "
    "likeliest log-odds; so the loss tends to its floor and not to 0. The theorem is for linearly "
    "independent tokens, at most d of them; here they are orthonormal, and the label is the "
    "follower of a token, an equivalent relabelling.",
    grid={"descent": list(RUNS)},
    run={"vocabulary": 10, "contexts": 40},
    seeds=5,
    group=1,
    measure=measure,
    checks=checks,
    gap=1e-8,
    thresholds={"correlation": 0.98, "excess": 1e-3},
    quick={"seeds": 1, "run": {"vocabulary": 8, "contexts": 24}},
    figure={
        **shared.CURVES,
        "lines": "descent",
        "panels": "quantity",
        "band": "half",
        "log": "xy",
        "xlabel": "step",
        "ylabel": "distance",
    },
    differs="The text bounds no step, and two opposite labels on one sentence of two tokens "
    "already need η < 4: here the loss never rises with the step. ‖W‖ → ∞ cannot hold where no "
    "component is above another, so that the solution of the graph problem is 0: such sets are not "
    "judged.",
    reference="li2024mechanics",
    theorem="Li et al. 2024, Theorem 2",
)

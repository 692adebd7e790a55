"""D: sentences with several next tokens: ties inside components, margins between, a finite part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.datasets.sentences import cyclic
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    noted,
)
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, worst_gap
from attsvm.next_token.attention import Contexts
from attsvm.next_token.infimum import FinitePart, finite_part
from attsvm.next_token.order import Order, orders
from attsvm.next_token.problems import attention_problem, certify_whole, solve_attention
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.gradient import attention_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Records that are kept of each run: every sixth, eight a decade, and the last.
_EVERY = 6


def _data(config: Config, seed: int) -> Sentences:
    """The sentences of one seed, each context under every label it can have."""
    return Sentences.of(
        cyclic(
            config["vocabulary"],
            config["length"],
            config["contexts"],
            seed,
            group=config["group"],
            copies=config["copies"],
        )
    )


def run(config: Config) -> Result:
    """Attention trained with the readout mass, by optimizer, and the graph problem's solution."""
    out: Result = {}
    for seed in config["seeds"]:
        data = _data(config, seed)
        found, E = orders(data), np.eye(data.vocabulary)
        best = certify_whole(found, E, solve_attention(found, E))
        out |= saved_solutions(f"{seed}.best", [best])
        for name, how in config["runs"].items():
            path = train(data, model="next-token", readout="mass", **how)
            keep = np.unique([*range(0, len(path.steps), _EVERY), len(path.steps) - 1])
            out[f"{seed}.{name}.steps"] = path.steps[keep]
            out[f"{seed}.{name}.W"] = path.weights["W_kq"][keep, 0]
    return out


@dataclass(frozen=True, eq=False)
class _Seed:
    """One set: its solution, its finite part, and along each run the three distances."""

    best: Certificate
    part: FinitePart
    tied: int
    direction: dict[str, Floats]
    finite: dict[str, Floats]
    excess: dict[str, Floats]


def _compared(config: Config, result: Result) -> list[_Seed]:
    out = []
    for seed in config["seeds"]:
        data = _data(config, seed)
        found, E = orders(data), np.eye(data.vocabulary)
        (best,) = recertified(f"{seed}.best", [attention_problem(found, E)], "frobenius", result)
        part = finite_part(data, found)
        look = attention_loss(Contexts.of(data, E), None)
        direction, finite, excess = {}, {}, {}
        for name in config["runs"]:
            W = result[f"{seed}.{name}.W"]
            direction[name] = np.array([cosine(w - part.W, best) for w in W])
            inside = np.stack([_inside(found, w) for w in W])
            finite[name] = np.array([_alike(w, part.W) for w in inside])
            excess[name] = np.array(
                [float(look({"W_kq": w[None]}).loss[0]) - part.infimum for w in W]
            )
        tied = sum(not order.acyclic for order in found.values())
        out.append(_Seed(best, part, tied, direction, finite, excess))
    return out


def _inside(found: dict[int, Order], W: Floats) -> Floats:
    """The part of W inside components: each component's entries less their mean."""
    out = np.zeros_like(W)
    for q, order in found.items():
        u = W[order.tokens, q]
        size = np.bincount(order.component)
        mean = np.bincount(order.component, u) / np.maximum(size, 1)
        out[order.tokens, q] = np.where(size[order.component] > 1, u - mean[order.component], 0.0)
    return out


def _alike(a: Floats, b: Floats) -> float:
    """The cosine of two matrices; nan when one is zero."""
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float((a * b).sum() / size) if size > 0 else float("nan")


def check(config: Config, result: Result) -> Finding:
    """Direction and finite part are reached by plain descent, and the loss tends to its floor."""
    found = _compared(config, result)
    gap = worst_gap([one.best for one in found])
    inside = [
        k
        for k, one in enumerate(found)
        if one.tied and one.part.components and one.best.W is not None and np.any(one.best.W)
    ]
    tests: list[Test] = []
    for name in config["judged"]:
        tests += _of_run(config, result, name, {k: found[k] for k in inside})
    tests += [
        at_most("largest certified gap", gap, 1e-8),
        at_most(
            "largest gradient left in the log-odds",
            max((one.part.residual for one in found), default=np.nan),
            1e-10,
        ),
        noted(
            "floor of the loss less the entropy of the labels (largest)",
            max(one.part.infimum - one.part.entropy for one in found),
        ),
        noted(
            "entropy of the labels (mean, nats)",
            float(np.mean([one.part.entropy for one in found])),
        ),
    ]
    for name in (name for name in config["runs"] if name not in config["judged"]):
        ends = {
            "correlation of the direction (least)": min(o.direction[name][-1] for o in found),
            "correlation of the finite part (least)": min(o.finite[name][-1] for o in found),
            "loss above its floor (largest)": max(o.excess[name][-1] for o in found),
        }
        tests += [noted(f"{name}: {what}", float(seen)) for what, seen in ends.items()]
    premises = (
        f"{len(inside)} of {len(found)} sets have a query with a cycle and a solution that is not "
        "0; every sentence has one token that its label follows; tokens orthonormal, readout mass "
        "(convex)"
    )
    return Finding(tuple(tests), premises, len(inside), gap)


def _of_run(config: Config, result: Result, name: str, sets: dict[int, _Seed]) -> Iterator[Test]:
    """What the theorem says of one run, over the sets inside."""
    if not sets:
        return
    ends, above = list(sets.values()), [one.excess[name] for one in sets.values()]
    paths = {k: result[f"{config['seeds'][k]}.{name}.W"] for k in sets}
    begun = {
        k: int(np.searchsorted(result[f"{config['seeds'][k]}.{name}.steps"], 1000)) for k in sets
    }
    norms = [np.linalg.norm(W[[begun[k], -1]], axis=(1, 2)) for k, W in paths.items()]
    yield at_least(
        f"{name}: least correlation of W − W_fin with the graph problem's solution",
        min(one.direction[name][-1] for one in ends),
        config["least"],
    )
    yield at_least(
        f"{name}: least correlation of the part inside components with the log-odds",
        min(one.finite[name][-1] for one in ends),
        config["least"],
    )
    yield at_least(
        f"{name}: norm at the end over that at step 1,000, least",
        min(float(late / early) for early, late in norms),
        1.0,
    )
    yield at_most(
        f"{name}: loss above its floor at the end (nats, largest)",
        max(one[-1] for one in above),
        config["excess"],
    )
    yield at_least(
        f"{name}: loss above its floor, least over all records (never below it)",
        min(float(one.min()) for one in above),
        -1e-12,
    )
    yield at_most(
        f"{name}: largest rise of the loss from record to record",
        max(float(np.diff(one).max()) for one in above),
        1e-12,
    )
    yield at_most(
        f"{name}: loss above its floor: end over step 1,000 (largest)",
        max(float(one[-1] / one[k]) for one, k in zip(above, begun.values(), strict=True)),
        0.3,
    )


def plot(config: Config, result: Result) -> Figure:
    """Distance of direction and finite part, and the loss above its floor, along each run."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    found = _compared(config, result)
    figure, axes = panels(3, figsize=(10.5, 3.9))
    for k, name in enumerate(config["runs"]):
        for j, one in enumerate(found):
            steps = result[f"{config['seeds'][j]}.{name}.steps"]
            label = name if j == 0 else None
            for ax, y in zip(
                axes, (1 - one.direction[name], 1 - one.finite[name], one.excess[name]), strict=True
            ):
                ax.loglog(
                    steps[1:],
                    np.maximum(y[1:], 1e-16),
                    color=CYCLE[k],
                    alpha=0.8,
                    linewidth=1.3,
                    label=label,
                )
    words = (
        ("Direction", "1 − correlation with the solution"),
        ("Inside components", "1 − correlation with the log-odds"),
        ("Loss", "above its floor (nats)"),
    )
    for ax, (title, up) in zip(axes, words, strict=True):
        ax.set(xlabel="iteration", ylabel=up, title=title)
    axes[0].legend(frameon=False, fontsize=7.5)
    return figure


_FULL = {
    "seeds": [0, 1, 2, 3, 4],
    "vocabulary": 10,
    "length": 4,
    "contexts": 40,
    "group": 3,
    "copies": 10,
    "judged": ["gradient descent", "gradient descent, random start"],
    "least": 0.98,
    "excess": 1e-3,
    "runs": {
        "gradient descent": {"optimizer": "gd", "lr": 20.0, "steps": 30_000},
        "gradient descent, random start": {
            "optimizer": "gd",
            "lr": 20.0,
            "steps": 30_000,
            "init": "normal:0.3",
        },
        "normalized, η ~ t^−½": {
            "optimizer": "ngd",
            "lr": 0.5,
            "schedule": "sqrt",
            "steps": 100_000,
        },
        "normalized, constant η": {"optimizer": "ngd", "lr": 0.1, "steps": 30_000},
    },
}

CLAIM = Claim(
    id="D.cyclic-data",
    title="Cyclic data: ties, margins, log-odds",
    kind="theorem",
    trust="read",
    statement="Theorem 2 of Li et al. 2024 (arXiv:2403.08081), not of paper D. When contexts have "
    "several next tokens, the priority graph of a query has cycles. Attention trained by plain "
    "descent from any start on −log of its mass on the label's token parts into a direction and a "
    "finite part: ‖W‖ → ∞ in the direction that solves the graph problem (ties inside strongly "
    "connected components, margins between them), and the part inside components tends to the "
    "likeliest log-odds; so the loss tends to its floor and not to 0. The theorem is for linearly "
    "independent tokens, at most d of them; here they are orthonormal, and the label is the "
    "follower of a token, an equivalent relabelling.",
    full=_FULL,
    quick={**_FULL, "seeds": [0], "vocabulary": 8, "contexts": 24},
    run=run,
    check=check,
    plot=plot,
    differs="Two slips of the text are left out. It bounds no step, and two opposite labels on one "
    "sentence of two tokens already need η < 4: here the step is one with which the loss never "
    "rises. And ‖W‖ → ∞ cannot hold where no component is above another, so that the solution of "
    "the graph problem is 0: such sets are not judged. Normalized descent is beside: with constant "
    "steps it does not settle inside components, with steps like t^−½ it does.",
    reference="li2024mechanics",
    numbered="Li et al. 2024, Theorem 2",
)

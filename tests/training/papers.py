"""The papers' synthetic runs by `train`, each as the numbers that are compared with theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attsvm import Path, Problem, Selection, Tokens, measures, solve, train
from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.datasets import EXAMPLES
from attsvm.solvers.solve_many import solve_many
from attsvm.training.heads import Linear
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.gradient.batch import Batch
from tests.training.models.precise import gradient
from tests.training.stacks import Stack

# Second coordinates of the starting prompts.
STARTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)
# Iterations of mirror descent by the exponent of its potential.
ITERATIONS = {"1.75": 1500, "2": 2000, "3": 20_000}
# The joint run of mirror descent: selections as published.
JOINT_SELECTIONS = {"1.75": [1, 0], "2": [1, 0], "3": [0, 0]}


def cosine(a: object, b: object) -> float:
    """The cosine of two arrays."""
    return float(measures.correlation(np.ravel(np.asarray(a)), np.ravel(np.asarray(b))))


def prompt_tokens(name: str) -> tuple[Tokens, Floats]:
    """The tokens of a prompt example, and its head."""
    arrays = EXAMPLES[name]()
    return Tokens(arrays["X"], keys=arrays.get("keys"), labels=arrays["y"]), arrays["v"]


def prompt_run(name: str, start: float) -> tuple[list[int], float]:
    """Selection, and cosine to the certified solution there, from p = (0, start, 0)."""
    tokens, v = prompt_tokens(name)
    path = train(tokens, model="prompt", head=v, steps=1000, init={"p": [0.0, start, 0.0]})
    best = solve(Problem.of(tokens, Selection.attended(path))).require()
    return path.selection[0].tolist(), cosine(path.weights["p"][-1], best.W)


def plain_and_normalized() -> dict[str, Path]:
    """The paths of gd with step 1 and ngd with step 0.1 from zero, 200 iterations."""
    tokens, v = prompt_tokens("multi-input-planar")
    return {
        optimizer: train(tokens, model="prompt", optimizer=optimizer, head=v, lr=lr, steps=200)
        for optimizer, lr in (("gd", 1.0), ("ngd", 0.1))
    }


def reference_prompt(optimizer: str, steps: int = 200) -> Floats:
    """The prompt of the same run with every gradient taken in as many digits as it needs."""
    tokens, v = prompt_tokens("multi-input-planar")
    batch, head, p = Batch.of(tokens), Linear(v[None]), np.zeros((1, tokens.d))
    for _ in range(steps):
        loss = LOSSES["logistic"]
        ((unit, log_size),) = gradient(MODELS["prompt"], {"p": p}, batch, head, loss)[0].values()
        p = p - (np.exp(log_size) if optimizer == "gd" else 0.1) * unit
    return p[0]


def joint_run(name: str) -> tuple[list[int], Floats, Floats]:
    """Selection, prompt and decoder of the joint run."""
    arrays = EXAMPLES[name]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    start = {"p": arrays["p0"], "v": arrays["v0"]}
    path = train(tokens, model="joint-prompt", steps=1000, init=start)
    return path.selection[0].tolist(), path.weights["p"][-1, 0], path.weights["v"][-1, 0]


def gain_run(loss: str, gain: float, steps: int) -> Path:
    """The run on two inputs whose good tokens score `gain` and 1, from zero."""
    X = np.array([[[0.0, 0, 0], [1, 1, gain]], [[0, 0, 0], [1, -1, 1]]])
    tokens = Tokens(X, keys=X * [1, 1, 0], labels=[1, 1])
    return train(tokens, model="prompt", head=[0, 0, 1], loss=loss, steps=steps)


def joint_mirror(p: str, steps: int | None = None) -> list[int]:
    """The selection of mirror descent on weights and decoder together, both from zero."""
    X = [[[-2.7, 1.2], [1.4, 2.1], [1.3, -0.1]], [[0.4, -2.2], [-1.1, -0.4], [0.9, 0.1]]]
    tokens = Tokens(X, queries="first", labels=[1, -1])
    steps = ITERATIONS[p] if steps is None else steps
    path = train(tokens, model="joint-weight", optimizer=f"nmirror:{p}", steps=steps)
    return path.selection[0].tolist()


@dataclass(frozen=True)
class Mirror:
    """Normalized mirror descent in several exponents p.

    alpha[p] (B, n): the tokens selected; divergence[p, q] (B,): the directional divergence, in
    exponent p, of the p-iterate from the ℓq solution at the tokens that the q-run has selected;
    agree (B,): all exponents have selected the same tokens.
    """

    alpha: dict[str, Ints]
    divergence: dict[tuple[str, str], Floats]
    agree: Bools

    def own_smallest(self, p: str, rows: Bools) -> float:
        """The share of these instances in which the p-iterate is nearest to the ℓp solution."""
        own = self.divergence[p, p][rows]
        others = [d[rows] for (a, b), d in self.divergence.items() if a == p and b != p]
        return float((own < np.min(others, axis=0)).mean())


def mirror_runs(
    made: Stack, init: str, iterations: Mapping[str, int] = ITERATIONS, seed: int = 0
) -> Mirror:
    """The Mirror of these instances; all exponents start from the same W(0)."""
    tokens, heads = made
    final, alpha, targets = {}, {}, {}
    for p, steps in iterations.items():
        path = train(
            tokens, optimizer=f"nmirror:{p}", head=heads, steps=steps, init=init, seed=seed
        )
        final[p], alpha[p] = path.matrices()[-1], path.selection
        problems = [
            Problem.of(t, Selection.attended(path, instance=b)) for b, t in enumerate(tokens)
        ]
        norm = "frobenius" if p == "2" else f"l{p}"
        targets[p] = [found.require() for found in solve_many(problems, norm)]
    divergence = {
        (p, q): np.asarray(measures.bregman(final[p], targets[q], float(p)))
        for p in iterations
        for q in iterations
    }
    first = next(iter(alpha.values()))
    agree = np.all([(a == first).all(axis=1) for a in alpha.values()], axis=0)
    return Mirror(alpha, divergence, agree)


@dataclass(frozen=True)
class Local:
    """A run at several iterations: correlation[norm][k] (B,) to the solutions at the tokens
    selected at the end, share[norm] (B,) the certified margin share at the end, best (B,) whether
    those tokens are the best ones."""

    correlation: dict[str, list[Floats]]
    share: dict[str, Floats]
    best: Bools


def local_convergence(
    made: Stack, model: str, at: Sequence[int] = (1000, 2000), decay: float = 0.0
) -> Local:
    """Normalized descent from uniform starts; each part goes on from where the last one ended."""
    tokens, heads = made
    path, final, done = None, [], 0
    for step in at:
        path = train(
            tokens, model=model, head=heads, steps=step - done, init="uniform", decay=decay,
            start=path,
        )  # fmt: skip
        final.append(path.matrices()[-1])
        done = step
    if path is None:
        raise ValueError("no iteration is asked for")
    keep = [Selection.attended(path, instance=b) for b in range(len(tokens))]
    problems = [Problem.of(t, k) for t, k in zip(tokens, keep, strict=True)]
    found = {
        norm: [c.require() for c in solve_many(problems, norm)] for norm in ("frobenius", "nuclear")
    }
    correlation = {
        norm: [np.asarray(measures.correlation(W, best)) for W in final]
        for norm, best in found.items()
    }
    share = {
        norm: np.asarray(measures.margin_share(final[-1], best)) for norm, best in found.items()
    }
    best = [Selection.best(t, v).indices for t, v in zip(tokens, heads, strict=True)]
    return Local(correlation, share, (path.selection == np.array(best)).all(axis=1))

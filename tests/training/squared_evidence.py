"""The evidence that the squared loss ½(1 − f)² is exact, however near to 1 its outputs are.

    python -m tests.training.squared_evidence [--quick] [PART ...]

Tokens whose values v·x are drawn from U(0, .9), and one best value per input: 1, a little less, or
less by .05. The references are textbook formulas in many digits: of the gradient at the library's
own W, and of whole runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from attsvm import Path, Problem, Tokens, measures, solve, train
from attsvm._utils.arrays import Floats
from attsvm.training.heads import Linear
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.gradient.batch import Batch, residual, shortfalls
from attsvm.training.models.model import evaluate
from tests.training.beside import found
from tests.training.digits import Setting
from tests.training.evidence import main
from tests.training.finding import Finding, Part, above, below
from tests.training.models.errors import precise_error
from tests.training.models.precise import gradient as precise_gradient

SQUARED = LOSSES["squared"]
# By how much the best values of an input are below 1; inputs take them in turn.
KINDS: dict[str, tuple[float, ...]] = {
    "met": (0.0,), "1e-9 below": (1e-9,), "1e-13 below": (1e-13,),
    "one rounding below": (2.0**-53,), "not met": (0.05,), "mixed": (0.05, 0.0),
}  # fmt: skip
# Best values above 1: the residual changes its sign, and cancels where it does.
ABOVE: dict[str, tuple[float, ...]] = {
    "one rounding above": (-(2.0**-52),), "1e-9 above": (-1e-9,),
}  # fmt: skip
# A step so long that W − η u is −η u to the last digit.
LONG = 2.0**60


def arrays(
    seed: int, short: tuple[float, ...], n: int = 6, T: int = 8, d: int = 10
) -> list[Floats]:
    """X, z, y and v = e₁: the first entry of a token is its value, the others and z are spheres."""
    rng = np.random.default_rng([seed, 11])
    X, z = rng.standard_normal((n, T, d)), rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    y = rng.choice([-1.0, 1.0], n)
    value = rng.uniform(0.0, 0.9, (n, T))
    value[np.arange(n), rng.integers(T, size=n)] = 1.0 - np.resize(short, n)
    X[:, :, 0] = y[:, None] * value
    return [X, z / np.linalg.norm(z, axis=1, keepdims=True), y, np.eye(d)[0]]


def trained(seeds: int, short: tuple[float, ...], steps: int = 3000) -> tuple[list[Tokens], Path]:
    """A stack of instances, and its run by normalized descent with steps of .1."""
    made = [arrays(seed, short) for seed in range(seeds)]
    tokens = [Tokens(X, queries=z, labels=y) for X, z, y, _ in made]
    path = train(tokens, head=made[0][3], loss="squared", lr=0.1, steps=steps, init="normal:0.1")
    return tokens, path


def gradient_error(tokens: Tokens, W: Floats, v: Floats) -> tuple[float, float]:
    """The error of the gradient at W (d, dq), by `evaluate` and by the fused kernel, and how much
    of what the residuals sum is left of them, at least."""
    batch, head, model = Batch.of(tokens), Linear(v[None]), MODELS["weight"]
    case = model, {"W": W[None]}, batch, head
    error, _ = precise_error(case, SQUARED)
    ((unit, log_size),) = (one["W"] for one in precise_gradient(*case, SQUARED))
    path = train(tokens, head=v, loss="squared", lr=LONG, steps=1, init={"W": W})
    step = (path.weights["W"][0, 0] - path.weights["W"][1, 0]) / LONG
    error = max(error, float(np.abs(step - unit).max()))
    error = max(error, abs(float(path.log_gradient[0, 0]) - log_size))
    short, logs = shortfalls(batch, head.v, SQUARED.best), evaluate(*case, SQUARED).logs
    left = residual(short, logs)[1] - residual(np.abs(short), logs)[1]
    return error, float(np.exp(left.min()))


def gradients(quick: bool) -> Iterator[Finding]:
    """ngd, step .1, 3,000 its, (6, 8, 10): largest error of direction or log norm on the way."""
    seeds, rows = (1, 4) if quick else (5, 10)
    count, last = 0, []
    for name, short in (KINDS | ABOVE).items():
        tokens, path = trained(seeds, short)
        v = np.eye(tokens[0].d)[0]
        at = np.linspace(0, len(path.steps) - 1, rows).astype(int)
        errors = [
            [gradient_error(t, path.weights["W"][r, b], v) for r in at]
            for b, t in enumerate(tokens)
        ]
        error, left = np.moveaxis(np.array(errors), 2, 0)
        size = f"gradients down to 1e{path.log_gradient.min() / np.log(10):.0f}"
        what = f"best values {name}, {seeds} runs"
        if name in KINDS:
            count += seeds
            last.append(error[:, -1].max())
            yield below(f"{what}, {size}", float(error.max()), 2e-12)
        else:
            words = f"{what}: error times the share of the residual that is left"
            yield below(words, float((error * left).max()), 2e-12)
    yield below(f"at the end of the {count} runs with no value above 1", max(last), 2e-12)


def runs(quick: bool) -> Iterator[Finding]:
    """ngd, step 1, (3, 4, 5): whole runs in many digits; the error is that of W along the run."""
    for name, short in KINDS.items():
        for seed in range(1 if quick else 5):
            X, z, y, v = arrays(seed, short, 3, 4, 5)
            start = {"W": np.random.default_rng([seed, 12]).standard_normal((5, 5))}
            setting = Setting(
                X=X, z=z, y=y, v=v, model="weight", optimizer="ngd", start=start, loss="squared",
                steps=60 if quick else 150,
            )  # fmt: skip
            yield found(setting, f"best values {name}, seed {seed}, {setting.steps} its")


def cosines(tokens: Tokens, W: Floats, selected: Floats) -> tuple[float, float]:
    """The cosine of W to the solution with margin ½ where the selected value is 1, and 1 elsewhere,
    and to the solution with margin 1 everywhere."""
    values = np.abs(tokens.X[np.arange(tokens.n), selected, 0])
    half = Problem.of(tokens, selected, b=np.where(values == 1.0, 0.5, 1.0))
    plain = Problem.of(tokens, selected)
    return tuple(float(measures.correlation(W, solve(p))) for p in (half, plain))  # type: ignore


def margins(quick: bool) -> Iterator[Finding]:
    """ngd, step .1, (6, 8, 10), 10,000 its: norms, and cosines to half and to plain margins."""
    seeds, steps = 6, 3000 if quick else 10_000
    for name in ("met", "mixed"):
        tokens, path = trained(seeds, KINDS[name], steps)
        W = path.matrices()
        found = np.array([cosines(t, W[-1, b], path.selection[b]) for b, t in enumerate(tokens)])
        grown = (measures.size(W[-1]) - measures.size(W[-2])) / (path.steps[-1] - path.steps[-2])
        growth = float(grown.min() / 0.1)
        what = f"best values {name}, {seeds} runs"
        yield above(f"{what}: least growth of the norm at the end, in steps", growth, 0.99)
        yield above(f"{what}: median cosine, half margins", float(np.median(found[:, 0])), 0.999, 5)
        yield above(f"{what}: least cosine, half margins", float(found[:, 0].min()), 0.98, 5)
        if name == "mixed":
            most = float(np.median(found[:, 1]))
            words = f"{most:.5f}, {found[:, 1].max():.5f}"
            yield Finding(
                f"{what}: plain margins, median and largest", words, "median ≤ 0.98", most <= 0.98
            )


PARTS: dict[str, Part] = {"gradients": gradients, "runs": runs, "margins": margins}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], PARTS))

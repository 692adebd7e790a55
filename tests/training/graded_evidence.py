"""Evidence that optimizers which weigh small and large alike are exact, however far apart they are.

    python -m tests.training.graded_evidence [--quick] [PART ...]

Runs of the library beside runs in many digits (`digits`) from the same start. The error is that of
a block's entries as a share of its largest, the largest along the run. Beside it the run's own
conditioning: what the many-digit run does when its start is moved by 1e-16 of its size, and when
each step ends in floats while all between is exact. No arithmetic of sixteen digits is below that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attsvm import Tokens
from attsvm.datasets.instances import sphere_arrays
from attsvm.training.heads import Linear
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate
from attsvm.training.optimizers import optimizer_of
from tests.training.beside import OPTIMIZERS, apart, compared, digits_run, found
from tests.training.digits import Setting
from tests.training.evidence import main
from tests.training.finding import Finding, Part
from tests.training.sentence_graded_evidence import sentences, sentences_before

# Model, and whether it trains a ReLU head.
FORMS = (
    ("prompt", False), ("weight", False), ("factored", False), ("joint-prompt", False),
    ("joint-weight", False), ("joint-weight", True), ("multi-head", False), ("split-heads", False),
    ("qk-norm", False),
)  # fmt: skip
STARTS = ("normal", "far")
WIDTH = 2


def setting(
    size: tuple[int, int, int], optimizer: str, start: str, *, model: str = "weight",
    relu: bool = False,
    steps: int = 200, lr: float = 1.0, seed: int = 0, units: bool = False,
) -> Setting:  # fmt: skip
    """Tokens on the sphere with blocks N(0, 1), or 60 in the first entry and zeros ("far").

    "far:F" has F instead of 60. units: the queries are unit vectors, so that each column of W is
    moved by its own input alone.
    """
    made = sphere_arrays(*size, seed=seed)
    d = size[2]
    shapes = {
        "prompt": {"p": (d,)}, "weight": {"W": (d, d)}, "factored": {"K": (d, d), "Q": (d, d)},
        "multi-head": {"W": (2 * d, d)}, "split-heads": {"W1": (d, d), "W2": (d, d)},
        "qk-norm": {"W": (d, d), "tau": (1,)},
    }[model.removeprefix("joint-")]  # fmt: skip
    rng = np.random.default_rng([seed, 7])
    blocks = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    if start.startswith("far"):
        for name, block in blocks.items():
            if name != "Q":  # K Qᵀ is then a row of 60 times numbers of any sign
                block[:] = 0.0
                block.flat[0] = float(start.partition(":")[2] or 60.0)
    joint = model.startswith("joint-")
    if joint:
        blocks["V" if relu else "v"] = rng.standard_normal((d, WIDTH) if relu else d)
    z = np.ones((size[0], 1)) if "p" in blocks else made["z"]
    z = np.eye(size[0], d) if units else z
    v = None if joint else made["v"]
    if model.endswith("heads") or model == "multi-head":
        v = rng.standard_normal((2, d))  # a row for each head
    # Labels −1 would let all units of a ReLU head die, in a gradient of zero.
    y = np.ones(size[0]) if relu else made["y"]
    return Setting(
        X=made["X"], z=z, y=y, v=v, model=model, optimizer=optimizer, start=blocks, lr=lr,
        steps=steps,
        relu=relu,
    )  # fmt: skip


def runs(quick: bool) -> Iterator[Finding]:
    """Weights, step 1, starts N(0, 1) and diag(60, 0, …): error along the run."""
    for size in ((3, 4, 3),) if quick else ((3, 4, 3), (6, 8, 10)):
        for optimizer in OPTIMIZERS:
            for start in STARTS:
                s = setting(size, optimizer, start, steps=60 if quick else 200)
                yield found(
                    s, f"{size}, {optimizer}, {start}, {s.steps} its", always=size == (3, 4, 3)
                )


def forms(quick: bool) -> Iterator[Finding]:
    """Every model with every optimizer, (3, 4, 3), step 1: error along the run."""
    for model, relu in FORMS:
        for optimizer in OPTIMIZERS:
            for start in STARTS[1:] if quick else STARTS:
                # Factors move their product by squares: so many steps take a thousand digits.
                steps = 15 if quick else 25 if model == "factored" else 60
                s = setting((3, 4, 3), optimizer, start, model=model, relu=relu, steps=steps)
                name = f"{model}, ReLU head" if relu else model
                yield found(s, f"{name}, {optimizer}, {start}, {steps} its")


def without(s: Setting) -> float:
    """The error of the same run when the optimizer sees only direction and scale."""
    exact, _ = digits_run(s)
    batch = Batch.of(Tokens(s.X, queries=s.z, labels=s.y))
    optimizer, model, head = (
        optimizer_of(s.optimizer),
        MODELS[s.model],
        Linear(np.asarray(s.v)[None]),
    )
    params = {name: block[None].copy() for name, block in s.start.items()}
    state, worst = optimizer.init(params), 0.0
    for t in range(s.steps):
        seen = evaluate(model, params, batch, head, LOSSES["logistic"])
        params, state = optimizer.update(params, seen.gradient, state, np.ones(1), seen.loss, t)
        here = {name: rows[t + 1 : t + 2] for name, rows in exact.items()}
        worst = max(worst, apart(params, here))
    return worst


def before(quick: bool) -> Iterator[Finding]:
    """The same runs by direction and scale alone, which lose what is below 1e-16 of the largest."""
    for optimizer, start, steps, units in (
        ("spectral", "normal", 100, False), ("spectral", "far", 100, False),
        ("muon", "normal", 100, False), ("muon", "far", 100, False),
        ("spectral", "far:2000", 20, True), ("sign", "far:2000", 20, True),
        ("signum", "far:2000", 20, True), ("adam", "far:2000", 20, True),
    ):  # fmt: skip
        if not quick or units:
            s = setting((3, 4, 3), optimizer, start, steps=steps, units=units)
            error, _, _ = compared(s)
            plain = without(s)
            what = f"{optimizer}, {start}{', unit queries' if units else ''}, {s.steps} its"
            yield Finding(what, f"{plain:.1g} before, {error:.1g} now")


def momentum(quick: bool) -> Iterator[Finding]:
    """Averages of short and of long memory: error, and the run's own conditioning."""
    for optimizer in ("muon", "signum"):
        for beta in (0.5, 0.99):
            s = replace(
                setting((3, 4, 3), optimizer, "normal", steps=40 if quick else 200, seed=1),
                options={"momentum": beta},
            )
            yield found(s, f"{optimizer}, β = {beta}, {s.steps} its", always=True)


PARTS: dict[str, Part] = {
    "runs": runs, "forms": forms, "before": before, "momentum": momentum, "sentences": sentences,
    "sentences-before": sentences_before,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], PARTS))

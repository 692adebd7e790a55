"""The evidence that training is exact, in one run by the library's own functions.

    python -m tests.training.evidence [--quick] [PART ...]

Prints one table a part, a line on standard error as each part begins; ends with 1 when a figure
is not what was asked of it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path as FilePath

import numpy as np

from attsvm import Problem, Selection, Tokens, measures, relaxed, solve, train
from attsvm.datasets import EXAMPLES
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.losses import LOSSES
from tests.theory.test_optimizers_against_norms import NORMS, OWN, certified, shares
from tests.training.finding import Finding, Part, above, below, equal
from tests.training.models.errors import (
    PAIRS,
    central_errors,
    precise_error,
    saturated_case,
    tied_case,
    underflowing_case,
    unsaturated_case,
)
from tests.training.models.instances import TIES
from tests.training.papers_evidence import factors, local, mirror, prompts
from tests.training.plain import EPS, correlations, weight_run
from tests.training.relations import (
    continued_equals_whole,
    curves_apart,
    every_combination,
    mirror_against_descent,
    prompt_against_weight,
)
from tests.training.stacks import end_of, stack


def gradients(quick: bool) -> Iterator[Finding]:
    """Every model, head and loss, unsaturated and far below the range of floats."""
    worst = max(
        error
        for name, head in PAIRS
        for loss in LOSSES.values()
        for error in central_errors(unsaturated_case(name, head), loss).values()
    )
    count = len(PAIRS) * len(LOSSES)
    yield below(f"{count} of model × head × loss against central differences", worst, 1e-6)
    errors, logs = [], []
    for seed in range(1 if quick else 4):
        for name, head in PAIRS:
            for loss in LOSSES.values():
                error, log_size = precise_error(saturated_case(name, head, 11 + seed), loss)
                errors.append(error)
                logs.append(log_size)
    yield below(
        f"{len(errors)} saturated ones against arithmetic of many digits", max(errors), 2e-12
    )
    largest = max(logs) / np.log(10)
    yield Finding(
        "the largest of their least norms", f"1e{largest:.0f}", "< 1e-200", largest < -200
    )
    tied = [
        precise_error(tied_case(kind, seed, depth), loss)
        for kind in TIES
        for depth in ((500.0,) if quick else (20.0, 500.0, 1500.0))
        for seed, loss in enumerate(LOSSES.values())
    ]
    worst = max(error for error, _ in tied)
    deepest = min(log for _, log in tied) / np.log(10)
    yield below(
        f"{len(tied)} with exact ties or at a loss's minimum, norms down to 1e{deepest:.0f}",
        worst,
        2e-12,
    )
    worst = max(
        precise_error(underflowing_case(name), LOSSES[loss])[0]
        for name in ("joint-prompt", "joint-weight")
        for loss in ("logistic", "exponential")
    )
    yield below("trained heads where the loss's slope is below 1e-400", worst, 2e-12)


def far(quick: bool) -> Iterator[Finding]:
    """Random instances (6, 8, 10), far past the range of floats, beside the plain formula."""
    made = stack(20 if quick else 100)
    for lr, steps in ((1.0, 3000), (0.1, 10_000)):
        run = f"ngd, step {lr:g}, {steps:,} its"
        path = train(made[0], head=made[1], lr=lr, steps=steps, init="uniform")
        end = end_of(path, *made)
        yield above(f"{run}: median correlation", float(np.median(end.correlation)), 0.999, 6)
        yield above(f"{run}: least correlation", float(end.correlation.min()), 0.99, 6)
        yield Finding(f"{run}: margin share, median and least",
                      f"{np.median(end.share):.4f}, {end.share.min():.4f}")  # fmt: skip
        yield equal(f"{run}: runs with a number that is not finite", int((~end.finite).sum()), 0)
        yield Finding(f"{run}: locally optimal, best tokens",
                      f"{end.local.mean():.0%}, {end.best.mean():.0%}")  # fmt: skip
        yield Finding(f"{run}: median log10 gradient", f"{np.median(end.log10_gradient):.0f}")
        for eps, words in ((EPS, "with eps, as published"), (0.0, "without eps")):
            W, _ = weight_run(made, path.weights["W"][0], lr, steps, eps)
            found = correlations(made, W, path.selection)
            length = np.median(measures.size(W)) / (lr * steps)
            yield Finding(
                f"the plain formula {words}: median and least correlation, share of the way made",
                f"{np.median(found):.3f}, {found.min():.3f}, {length:.0%}",
            )


def equalities(quick: bool) -> Iterator[Finding]:
    """Equal in exact arithmetic, so equal here to rounding, or in every digit."""
    for optimizer in ("gd", "ngd"):
        yield below(
            f"prompt and weight, {optimizer}, 300 steps", prompt_against_weight(optimizer), 1e-12
        )
    for mirrored, plain in (("mirror:2", "gd"), ("nmirror:2", "ngd")):
        apart = mirror_against_descent(mirrored, plain)
        yield below(f"{mirrored} and {plain}, 300 steps", apart, 1e-12)
    pairs, cuts = every_combination(), (23,) if quick else (1, 7, 23, 40)
    with tempfile.TemporaryDirectory() as folder:
        same = sum(
            continued_equals_whole(model, optimizer, FilePath(folder), cut)
            for model, optimizer in pairs
            for cut in cuts
        )
    count = len(cuts) * len(pairs)
    what = "saved, loaded and continued runs of every model and optimizer, equal in every digit"
    yield equal(what, f"{same} of {count}", f"{count} of {count}")


def optimizers(quick: bool) -> Iterator[Finding]:
    """Median margin share of each optimizer's run in each norm; 20 seeds of (5, 4, 5)."""
    made, found = certified()
    for (model, optimizer), own in OWN.items():
        share = shares(made, found, model, optimizer)
        row = ", ".join(f"{norm} {share[norm]:.3f}" for norm in NORMS)
        met = max(share, key=lambda norm: share[norm]) == own and share[own] > 0.98
        yield Finding(f"{model} {optimizer}: margin shares", row, f"{own} largest, > 0.98", met)


def paths(quick: bool) -> Iterator[Finding]:
    """Regularization paths to 10⁴ times the least norm."""
    for norm in ("frobenius", "l1.75", "nuclear"):
        found = []
        for seed in range(1 if quick else 3):
            (t,), v = (part[seed : seed + 1] for part in stack(seed + 1))
            model = "factored" if norm == "nuclear" else "weight"
            found.append(regpath(t, model=model, norm=norm, head=v[0], starts=2))
        share = min(float(path.share[-1]) for path in found)
        yield above(f"{norm} path: least margin share at its end", share, 0.999, 6)
        if norm != "nuclear":
            end = min(float(path.correlation[-1]) for path in found)
            yield above(f"{norm} path: least correlation at its end", end, 0.999, 6)
    arrays = EXAMPLES["joint-relaxed"]()
    tokens = Tokens(arrays["X"], labels=arrays["y"])
    keep = Selection.of(tokens, arrays["alpha"])
    limits = {"tight": solve(Problem.of(tokens, keep)), "relaxed": solve(relaxed(tokens, keep))}
    for name, second, near in (("√R", np.sqrt, "tight"), ("R", float, "relaxed")):
        path = regpath(
            tokens, model="joint-prompt", keep=keep, second=second, radii=[5, 20, 100], starts=1
        )
        W = path.matrices()[1, 0]
        cosines = {key: float(measures.correlation(W, best)) for key, best in limits.items()}
        row = ", ".join(f"{key} {value:.4f}" for key, value in cosines.items())
        asked = {"tight": 0.9995, "relaxed": 0.9997}[near]
        met = abs(cosines[near] - asked) < 1e-4 and max(cosines, key=lambda k: cosines[k]) == near
        yield Finding(f"joint path, r = {name}, R = 20: cosine to", row, f"{near} {asked}", met)


def clock(quick: bool) -> Iterator[Finding]:
    """Normalized steps on the clock of plain gradient flow."""
    made = stack(1)
    path = train(made[0], head=made[1], lr=1.0, steps=6000, init="normal:0.1")
    log10 = float(path.clock[-1, 0] / np.log(10))
    yield above(
        "ngd, step 1, 6,000 steps: log10 of plain flow's time at the same point", log10, 500, 0
    )
    grid = (0.02, 0.01, 0.005) if quick else (0.02, 0.01, 0.005, 0.0025, 0.00125)
    apart = [curves_apart(step) for step in grid]
    row = ", ".join(f"{step:g}: {gap:.1e}" for step, gap in zip(grid, apart, strict=True))
    halved = [a / b for a, b in pairwise(apart)]
    met = all(1.9 < ratio < 2.1 for ratio in halved)
    yield Finding("gd and ngd at equal flow time: distance of directions by step", row,
                  "halves with the step", met)  # fmt: skip


PARTS: dict[str, Part] = {
    "gradients": gradients,
    "far": far,
    "prompts": prompts,
    "local": local,
    "factors": factors,
    "mirror": mirror,
    "equalities": equalities,
    "optimizers": optimizers,
    "paths": paths,
    "clock": clock,
}


def main(arguments: list[str], parts: dict[str, Part] = PARTS) -> int:
    """Run and print; the exit code."""
    quick = "--quick" in arguments
    chosen = [word for word in arguments if not word.startswith("-")] or list(parts)
    unknown = [word for word in chosen if word not in parts]
    if unknown or any(word.startswith("-") and word != "--quick" for word in arguments):
        print(f"usage: evidence [--quick] [PART ...]; parts: {', '.join(parts)}", file=sys.stderr)
        return 2
    start, missed = time.process_time(), 0
    for k, name in enumerate(chosen, start=1):
        print(f"part {k} of {len(chosen)}: {name}", file=sys.stderr, flush=True)
        began = time.process_time()
        print(f"\n### {name}\n\n{(parts[name].__doc__ or '').splitlines()[0]}\n", flush=True)
        print("| figure | found | asked | met |\n|---|---|---|---|", flush=True)
        for finding in parts[name](quick):
            missed += finding.met is False
            print(finding, flush=True)
        print(f"\n{time.process_time() - began:.1f} CPU s", flush=True)
    print(f"\n{missed} figures not met, {time.process_time() - start:.0f} CPU s in all")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

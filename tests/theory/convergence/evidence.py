"""What proofs of convergence do on runs: how soon they come, and whether anything leaves after one.

    python -m tests.theory.convergence.evidence [WHAT] [--count N] [--first SEED] [--after STEPS]

WHAT: one of the names in TABLES, or `starts`, or `all`. Instances are drawn by
tests/theory/convergence/instances.py; the solution that corr refers to is that of reference.py. A
run is trained from N(0, 1), its first proof is looked for among its records (by halving: later
records are taken to be proved as well), and then it goes on for --after steps from the proved W.
Ends with 1 if a proved run leaves its selection or a proved bound.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm import train
from attsvm.experiments.studies.shared.first_proofs import lipschitz
from attsvm.theory.convergence.proof import ConvergenceProof
from attsvm.theory.convergence.prove import prover
from tests.theory.convergence.instances import Run, instance, runs, unit
from tests.theory.convergence.reference import Case, max_margin

Array = Any
SPHERE = (6, 8, 10)


@dataclass(frozen=True)
class Asked:
    """A row of the table: a kind of instance and a way of training."""

    kind: str
    shape: tuple[int, int, int] = SPHERE
    loss: str = "logistic"
    optimizer: str = "ngd"
    lr: float = 0.1
    steps: int = 6000
    safe: bool = False  # lr is 1/L_W of each instance

    def __str__(self) -> str:
        step = "1/L" if self.safe else f"{self.lr:g}"
        return f"{self.kind} {self.shape}, {self.loss}, {self.optimizer} {step}"


TABLES = {
    "sphere": Asked("sphere"),
    "wide": Asked("sphere", (20, 5, 12)),
    "correlated": Asked("correlated", lr=0.05, steps=8000),
    "prompt": Asked("prompt"),
    "exponential": Asked("sphere", loss="exponential"),
    "linear": Asked("sphere", loss="linear"),
    "gaussian": Asked("gaussian", lr=0.02, steps=8000),
    "gd": Asked("sphere", optimizer="gd", lr=1.0, steps=60000),
    "gd-long": Asked("sphere", optimizer="gd", lr=50.0, steps=60000),
    "gd-safe": Asked("sphere", optimizer="gd", safe=True, steps=60000),
}


def first_proof(run: Run) -> tuple[int, ConvergenceProof] | None:
    """The first record that is proved, by halving."""
    at = {len(run.W) - 1: run.judge.prove(np.ascontiguousarray(run.W[-1]))}
    low, high = -1, len(run.W) - 1
    if not at[high].proved:
        return None
    while high - low > 1:
        mid = (low + high) // 2
        at[mid] = run.judge.prove(np.ascontiguousarray(run.W[mid]))
        low, high = (low, mid) if at[mid].proved else (mid, high)
    return high, at[high]


def off(W: Array, ray: Array) -> Array:
    """1 − corr (...,), without cancellation."""
    return 0.5 * ((unit(W) - unit(ray)) ** 2).sum(axis=-1)


@dataclass
class Found:
    """What came of one row of the table."""

    count: int = 0
    steps: list[int] | None = None
    norms: list[float] | None = None
    by: Counter[str] | None = None
    ms: list[float] | None = None
    blocked: Counter[str] | None = None
    left: int = 0
    above: int = 0
    rose: int = 0
    refused: int = 0
    ratio: float = 0.0


def measured(asked: Asked, seeds: Any, after: int) -> Found:
    """Runs, first proofs, and what happens in so many more steps."""
    found = Found(0, [], [], Counter(), [], Counter())
    for some in np.array_split(np.asarray(seeds), max(1, len(seeds) // 25)):
        options: dict[str, Any] = {
            "loss": asked.loss,
            "optimizer": asked.optimizer,
            "steps": asked.steps,
        }
        if asked.safe:
            made: list[Run] = []
            for seed in some:
                lr = 1 / lipschitz(*instance(asked.kind, seed, asked.shape))
                made += runs(asked.kind, [seed], lr=lr, shape=asked.shape, **options)
        else:
            made = runs(asked.kind, some, lr=asked.lr, shape=asked.shape, **options)
        proved = []
        for run in made:
            found.count += 1
            first = first_proof(run)
            if first is None:
                reason = run.judge.prove(np.ascontiguousarray(run.W[-1])).message
                word = "not locally optimal" if "locally optimal" in reason else "not yet"
                found.blocked[word] += 1
                continue
            r, proof = first
            clock = time.process_time()
            again = run.judge.prove(np.ascontiguousarray(run.W[r]))
            found.ms.append(1e3 * (time.process_time() - clock))
            found.refused += not again.verify()
            found.steps.append(int(run.steps[r]))
            found.norms.append(float(np.linalg.norm(run.W[r])))
            found.by[str(proof.theorem) + str(proof.witness.get("mode", ""))] += 1
            proved.append(proof)
        if asked.safe:
            for proof in proved:
                _follow([proof], asked, after, found)
        elif proved:
            _follow(proved, asked, after, found)
    return found


def _follow(proved: list[ConvergenceProof], asked: Asked, after: int, found: Found) -> None:
    """Train on from the proved W, and count what leaves its selection or its bound."""
    path = train(
        [proof.tokens for proof in proved],
        head=np.stack([proof.head for proof in proved]),
        optimizer=asked.optimizer,
        lr=proved[0].lr,
        loss=asked.loss,
        steps=after,
        init={"W": np.stack([proof.W for proof in proved])},
    )
    W = path.weights["W"]
    for b, proof in enumerate(proved):
        same = (path.changed[b] <= 0).all() and (path.top[:, b] == proof.selection).all()
        found.left += not same
        loss = path.loss[:, b]
        found.rose += proof.theorem == "level" and bool((np.diff(loss) > 1e-13 * loss[:-1]).any())
        if proof.theorem != "tube":
            continue
        ray = max_margin(Case.of(proof.tokens, proof.head, asked.loss).at(proof.selection).a).W
        apart = off(W[:, b].reshape(len(W), -1), ray)
        bounds = [proof.bound_at(W[:, b])]
        if asked.optimizer == "ngd":
            bounds.append(proof.bound(path.steps))
        for bound in bounds:
            found.above += bool((apart > bound + 1e-15).any())
            found.ratio = max(found.ratio, float((apart / bound).max()))


COLUMNS = (
    "runs",
    "proved",
    "not locally optimal",
    "not yet",
    "step: median (max)",
    "norm: median (max)",
    "theorem",
    "ms",
    "leave",
    "above a bound",
    "refused",
)


def middle(x: list[Any], form: str) -> str:
    """The median and the largest."""
    return f"{np.median(x):{form}} ({np.max(x):{form}})" if x else "–"


def table(names: list[str], count: int, first: int, after: int) -> int:
    """Print the rows; the number of faults."""
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    wrong = 0
    for name in names:
        f = measured(TABLES[name], range(first, first + count), after)
        cells = (
            str(TABLES[name]),
            f"{len(f.steps)}/{f.count}",
            str(f.blocked["not locally optimal"]),
            str(f.blocked["not yet"]),
            middle(f.steps, ".0f"),
            middle(f.norms, ".3g"),
            ", ".join(f"{word} {k}" for word, k in sorted(f.by.items())),
            f"{np.median(f.ms) if f.ms else 0:.1f}",
            str(f.left),
            f"{f.above} (at most {f.ratio:.2f} of it)",
            str(f.refused),
        )
        print("| " + " | ".join(cells) + " |", flush=True)
        wrong += f.left + f.above + f.rose + f.refused
    return wrong


def starts(count: int, first: int, steps: int = 3000) -> int:
    """Starts R(Ŵ/N + noise) at selections among the best two or three tokens: who leaves."""
    rng = np.random.default_rng([11, first])
    tokens, heads, begun, proofs = [], [], [], []
    seed = first
    while len(begun) < count:
        own, v = instance("sphere", seed)
        seed += 1
        score = own.labels[:, None] * (own.X @ v)
        for _ in range(2):
            best = np.argsort(-score, axis=1)[:, : rng.integers(2, 4)]
            place = rng.integers(0, best.shape[1], own.n) * (rng.random(own.n) < rng.random())
            alpha = best[np.arange(own.n), place]
            solved = max_margin(Case.of(own, v, "logistic").at(alpha).a)
            judge = prover(own, head=v)
            for _ in range(10):
                R, noise = 30 * (2000 / 30) ** rng.random(), 0.003 * (0.5 / 0.003) ** rng.random()
                shake = unit(rng.standard_normal(solved.W.size))
                W = (R * (solved.W / solved.N + noise * shake)).reshape(own.d, -1)
                begun.append(W)
                tokens.append(own)
                heads.append(v)
                proofs.append(judge.prove(W))
    begun, proofs = begun[:count], proofs[:count]
    path = train(
        tokens[:count], head=np.stack(heads[:count]), steps=steps, init={"W": np.stack(begun)}
    )
    left = (path.changed > 0).any(axis=1)
    tally: Counter[tuple[str, bool]] = Counter()
    for proof, gone in zip(proofs, left, strict=True):
        word = "proved" if proof.proved else "unproved, locally optimal"
        if not proof.proved and "locally optimal" in proof.message:
            word = "not locally optimal"
        tally[word, bool(gone)] += 1
    print(f"| {count} starts, {steps} steps | left | stayed |\n|---|---|---|")
    for word in ("proved", "unproved, locally optimal", "not locally optimal"):
        print(f"| {word} | {tally[word, True]} | {tally[word, False]} |")
    return tally["proved", True]


def main() -> int:
    """Print what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default="all", choices=[*TABLES, "starts", "all"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--after", type=int, default=20000)
    asked = parser.parse_args()
    wrong = 0
    if asked.what != "starts":
        names = list(TABLES) if asked.what == "all" else [asked.what]
        wrong += table(names, asked.count, asked.first, asked.after)
    if asked.what in ("starts", "all"):
        wrong += starts(10 * asked.count if asked.what == "all" else asked.count, asked.first)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

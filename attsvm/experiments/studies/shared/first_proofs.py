"""Runs of one size, optimizer and step, and the first of their records proved to converge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.experiments.studies.claim import Config, seeds_of
from attsvm.experiments.studies.shared.random_instances import self_attending
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.prover import Prover, prover

# Every third record is looked at: they are 15 % apart.
_EVERY = 3
# The records that are kept of a run: before the first proof, at it, later, and the last.
BEFORE, FIRST, LATER, LAST = range(4)


@dataclass(frozen=True)
class ProofCell:
    """Runs of one size (n, T, d), one optimizer and one step; lr 0: 1/L_W of each instance."""

    shape: tuple[int, int, int]
    optimizer: str
    lr: float
    steps: int

    @property
    def size(self) -> str:
        """n, T and d in one word."""
        return "x".join(map(str, self.shape))

    def __str__(self) -> str:
        return (
            f"{self.size} {self.optimizer} {self.lr:g}"
            if self.lr
            else f"{self.size} {self.optimizer} 1/L"
        )

    @property
    def p(self) -> float:
        """The exponent of the optimizer's geometry."""
        return float(self.optimizer.partition(":")[2] or 2.0)


@dataclass(frozen=True, eq=False)
class DrawnRuns:
    """The instances of a cell, their heads (B, d), starts (B, d, d) and step sizes (B,)."""

    cell: ProofCell
    tokens: list[Tokens]
    heads: Floats
    starts: Floats
    lr: Floats

    @staticmethod
    def of(config: Config, cell: ProofCell) -> DrawnRuns:
        """The draws of the config's seeds; of half of them for mirror descent, which is slow."""
        d, seeds = cell.shape[2], seeds_of(config)
        if cell.p != 2:
            seeds = seeds[: (len(seeds) + 1) // 2]
        pairs = [self_attending(cell.shape, seed) for seed in seeds]
        starts = [
            np.random.default_rng([config["start"], seed]).standard_normal((d, d)) for seed in seeds
        ]
        lr = [cell.lr or 1 / lipschitz(tokens, v) for tokens, v in pairs]
        tokens = [tokens for tokens, _ in pairs]
        return DrawnRuns(
            cell, tokens, np.stack([v for _, v in pairs]), np.stack(starts), np.array(lr)
        )

    def judge(self, b: int) -> Prover:
        """The Prover of one instance."""
        return prover(
            self.tokens[b], head=self.heads[b], optimizer=self.cell.optimizer, lr=float(self.lr[b])
        )

    def trained(self) -> tuple[Ints, Floats]:
        """The steps (R,) and the weights (R, B, d, d) of the runs."""
        parts = [slice(b, b + 1) for b in range(len(self.tokens))] if not self.cell.lr else [...]
        paths = [
            train(
                np.array(self.tokens, dtype=object)[part].tolist(),
                head=self.heads[part],
                optimizer=self.cell.optimizer,
                lr=float(self.lr[part].flat[0]),
                steps=self.cell.steps,
                init={"W": self.starts[part]},
            )
            for part in parts
        ]
        return paths[0].steps, np.concatenate([path.weights["W"] for path in paths], axis=1)


def lipschitz(tokens: Tokens, v: Floats) -> float:
    """L_W = (1/n) Σ ‖v‖ ‖z‖² ‖X‖³ (‖v‖ ‖X‖/4 + 3), spectral norms of the tokens."""
    size, head = np.linalg.norm(np.asarray(tokens.X), 2, axis=(1, 2)), float(np.linalg.norm(v))
    query = (tokens.queries**2).sum(axis=1)
    return float((head * query * size**3 * (head * size / 4 + 3)).mean())


def first_proved(judge: Prover, W: Floats) -> tuple[Ints, bool]:
    """The records BEFORE, FIRST, LATER, LAST of a run W (R, d, d), and whether there is a proof.

    All are the last where there is none.
    """
    last = len(W) - 1
    grid = np.arange(last % _EVERY, last + 1, _EVERY)
    none = np.full(4, last)
    top = np.stack([judge.selected(W[r]) for r in grid])
    loose = (top != top[-1]).any(axis=1).nonzero()[0]
    low, high = int(loose[-1]) if len(loose) else -1, len(grid) - 1
    if not judge.prove(W[last], explain=False).proved:
        return none, False
    while high - low > 1:
        middle = (low + high) // 2
        proved = judge.prove(W[grid[middle]], explain=False).proved
        low, high = (low, middle) if proved else (middle, high)
    later = grid[(high + len(grid) - 1) // 2]
    return np.array([grid[max(low, 0)], grid[high], later, last]), True

"""Stacks of random instances on the sphere, and how a run on them ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attsvm import Path, Tokens, outcome
from attsvm._utils.arrays import Bools, Floats
from attsvm.datasets.instances import sphere_arrays

Stack = tuple[list[Tokens], Floats]


def stack(seeds: int, *sizes: int, equal_scores: bool = False) -> Stack:
    """Instances of the seeds 0 to seeds − 1, by the library's own draw, and their heads (B, d)."""
    made = [sphere_arrays(*sizes, seed=seed, equal_scores=equal_scores) for seed in range(seeds)]
    tokens = [Tokens(a["X"], queries=a["z"], labels=a["y"]) for a in made]
    return tokens, np.array([a["v"] for a in made])


@dataclass(frozen=True)
class FinalState:
    """How B runs end: correlation and certified margin share (B,) to the solution at the tokens
    each one has selected, which of them have the best tokens, which locally optimal ones, and the
    norm and log10 of the gradient (B,)."""

    correlation: Floats
    share: Floats
    best: Bools
    local: Bools
    finite: Bools
    log10_gradient: Floats


def end_of(path: Path, tokens: Sequence[Tokens], heads: Floats) -> FinalState:
    """The End of a path by `outcome`, in the norm its optimizer is predicted to lead to."""
    ends = [outcome(path, t, heads[b], instance=b) for b, t in enumerate(tokens)]
    verdicts = [e.optimality for e in ends]
    return FinalState(
        np.array([e.correlation for e in ends]),
        np.array([e.margin_share for e in ends]),
        np.array([o is not None and o.globally for o in verdicts]),
        np.array([e.state == "at a locally optimal selection" for e in ends]),
        np.asarray(np.isfinite(path.matrices()).all(axis=(0, 2, 3))),
        np.array([e.log10_gradient for e in ends]),
    )

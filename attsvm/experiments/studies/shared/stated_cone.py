"""The cone of v1's Theorem 7 with its printed constants, and what is proved of starts in it.

For a locally optimal selection α with a tight token in every input, T_i its tight tokens:

    Θ = 1/‖W^mm‖,   A = max ‖x_it z_iᵀ‖/Θ,   δ = ½ min (x_it − x_iτ)ᵀ W^mm z_i, t ∈ T_i, τ ∉ T_i
    μ = ⅛ (min(½, δ)/A)²,   R = (max(2, 1/δ)/Θ) log(64 T Γ A/γ_gap)
    C = {W : cos(W, W^mm) ≥ 1 − μ, ‖W‖ ≥ R}

with Γ the largest difference of two scores of an input and γ_gap the least by which a kept token
beats a tight one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate
from attsvm.experiments.studies.shared.plain_descent import smoothness
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.prover import Prover, prover
from attsvm.theory.optima import score_gaps

# Halvings of the logarithm of a norm: to about five per cent of it.
_HALVINGS = 8


@dataclass(frozen=True, eq=False)
class StatedCone:
    """μ and R of one selection, W^mm (d, dq), and the starts (e, d, dq) on the cone's edge."""

    mu: float
    radius: float
    best: Floats
    toward: Floats

    @property
    def angle(self) -> float:
        """The half-angle, in radians."""
        return float(np.arccos(1 - self.mu))

    def edge(self, radius: float | None = None) -> Floats:
        """Starts (e, d, dq) of this norm, R unless given, on the edge of the cone."""
        size = self.radius if radius is None else radius
        unit = self.best / np.linalg.norm(self.best)
        c = 1 - self.mu
        return size * (c * unit + np.sqrt(1 - c * c) * self.toward)


def cone_as_stated(
    tokens: Tokens, v: Floats, alpha: Ints, best: Certificate, *, edges: int, seed: int
) -> StatedCone | None:
    """The cone of a selection; None where an input has no tight token, for which none is stated.

    The first starts lean to the better-scoring tokens, one each, the others anywhere.
    """
    if best.W is None:
        return None
    rows, tight = best.problem.rows, best.tight.tight
    if not all(tight[rows[:, 0] == i].any() for i in range(tokens.n)):
        return None
    gaps = score_gaps(tokens, alpha, v)[0][rows[:, 0], rows[:, 2]]
    scores, W = tokens.scores(v), np.asarray(best.W)
    norm = float(np.linalg.norm(W))
    delta = 0.5 * float((best.margins - 1)[~tight].min(initial=np.inf))
    sizes = np.linalg.norm(np.asarray(tokens.X), axis=2) * np.linalg.norm(
        tokens.queries, axis=1, keepdims=True
    )
    A = float(sizes.max()) * norm
    widest = float((scores.max(axis=1) - scores.min(axis=1)).max())
    ratio = 64 * tokens.T * widest * A / float(gaps[tight].min())
    better = np.flatnonzero(gaps < 0)[:edges]
    draw = np.random.default_rng(seed)
    toward = draw.standard_normal((edges, *W.shape))
    D, z = best.problem.differences(better), best.problem.queries[best.problem.query[better]]
    toward[: len(better)] = -np.einsum("ki,kj->kij", D, z)
    toward -= np.einsum("eij,ij->e", toward, W)[:, None, None] * W / norm**2
    toward /= np.linalg.norm(toward, axis=(1, 2), keepdims=True)
    return StatedCone(
        0.125 * (min(0.5, delta) / A) ** 2,
        max(2.0, 1 / delta) * norm * float(np.log(ratio)),
        W,
        toward,
    )


def plain_prover(tokens: Tokens, v: Floats) -> Prover:
    """Proofs for plain descent with η = 1/L_W."""
    return prover(tokens, head=v, optimizer="gd", lr=1 / smoothness(tokens, v))


def least_proved(made: Prover, stated: StatedCone) -> float:
    """About the least norm at which the first start of this angle is proved; inf beyond 100 R."""
    norm = float(np.linalg.norm(stated.best))
    low, high = np.log(norm), np.log(100 * stated.radius)

    def proved(log: float) -> bool:
        return made.prove(stated.edge(float(np.exp(log)))[0], explain=False).proved

    if proved(np.log(stated.radius)):
        high = np.log(stated.radius)
    elif not proved(high):
        return np.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if proved(middle) else (middle, high)
    return float(np.exp(high))

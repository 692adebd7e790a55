"""Excess: how far the loss is above that of fixed tokens, exact where the two agree in floats.

With a linear head, margins are y f = γ_α − δ, δ = Σ_t s_t (γ_α − γ_t), and

    ℓ(γ_α − δ) − ℓ(γ_α) = δ ∫₀¹ |ℓ'(γ_α − uδ)| du

so that logs of attention, score gaps and slopes give its log at any saturation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints, vector
from attsvm.errors import Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.theory.optima import score_gaps
from attsvm.training.losses import Loss

# Gauss-Legendre on [0, 1]: exact to rounding for the slope of a loss over half a unit.
_POINTS, _SHARES = np.polynomial.legendre.leggauss(8)
_NODES, _WEIGHTS = (_POINTS + 1) / 2, _SHARES / 2
# Up to this δ the integral is taken, beyond it the difference.
_SHORT = 0.5


@dataclass(frozen=True)
class Signed:
    """A number as sign (−1, 0, 1) and log of its size (−inf for 0)."""

    sign: int
    log: float

    @property
    def value(self) -> float:
        """The number itself, 0 or inf where floats end."""
        with np.errstate(over="ignore"):
            return float(self.sign * np.exp(self.log)) if self.sign else 0.0


@dataclass(frozen=True, eq=False)
class Excess:
    """The loss above that of fixed tokens, L(W) − (1/n) Σ ℓ(γ_iα), without cancellation.

    signs, logs (n, T): γ_iα − γ_it; scores (n,): γ_iα; infimum: (1/n) Σ ℓ(γ_iα). With the best
    tokens and a loss that falls all the way to their scores, infimum is the infimum of L.
    """

    loss: Loss
    signs: Floats
    logs: Floats
    scores: Floats
    infimum: float

    @classmethod
    def over(cls, tokens: Tokens, alpha: Ints, v: Any, loss: Loss) -> Excess:
        """The excess over the tokens alpha (n,) under the head v (d,)."""
        head = vector(v, tokens.d)
        gaps, _ = score_gaps(tokens, alpha, head)
        scores = tokens.scores(head)
        # The slope rises with the margin (ℓ is convex): the highest score decides.
        if (loss.slope(scores.max(axis=1))[0] >= 0).any():
            raise Unsupported(
                f"loss {loss.name!r} rises before the highest score: no infimum is known"
            )
        signs = np.sign(gaps)
        logs = np.log(np.abs(gaps), out=np.full(gaps.shape, -np.inf), where=signs != 0)
        own = scores[np.arange(tokens.n), alpha]
        return cls(loss, signs, logs, own, float(loss.value(own).mean()))

    def __call__(self, attention: Floats) -> Signed:
        """L − infimum at log attention (n, T)."""
        terms = np.where(self.signs != 0, attention + self.logs, -np.inf)
        sign, log = _sum(self.signs, terms)
        with np.errstate(under="ignore"):
            delta = sign * np.exp(log)
        near = self.scores[:, None] - _NODES * np.where(np.abs(delta) < _SHORT, delta, 0.0)[:, None]
        short = log + np.logaddexp.reduce(self.loss.slope(near)[1] + np.log(_WEIGHTS), axis=1)
        direct = np.abs(self.loss.value(self.scores - delta) - self.loss.value(self.scores))
        # Where both losses underflow, the larger one is as large as its slope.
        tail = self.loss.slope(self.scores - np.maximum(delta, 0.0))[1]
        long = np.log(direct, out=tail, where=direct > 0)
        sizes = np.where(np.abs(delta) >= _SHORT, long, short)
        total = _sum(sign[None], sizes[None])
        return Signed(int(total[0][0]), float(total[1][0] - np.log(len(sizes))))


def log_loss(loss: Loss, margins: Floats) -> float:
    """log of the mean loss, past underflow (there a loss is as large as its slope); the mean loss
    itself where its infimum is not 0."""
    values = loss.value(margins)
    if loss.infimum != 0.0:
        return float(values.mean())
    tail = loss.slope(margins)[1]
    logs = np.log(values, out=tail, where=values > 1e-290)
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def _sum(signs: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Σ signs·e^logs along the last axis, as sign and log."""
    top = np.where(signs != 0, logs, -np.inf).max(axis=-1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(under="ignore"):
        total = (signs * np.exp(np.where(signs != 0, logs - safe[..., None], -np.inf))).sum(axis=-1)
    size = np.abs(total)
    return np.sign(total), safe + np.log(size, out=np.full(size.shape, -np.inf), where=size > 0)

"""Prompts of least loss in balls, on random instances: what the studies of paths share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.group import Drawn, evaluate_at, selected_by
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.regularization_path.ball import stationarity
from attsvm.theory.regularization_path.excess import Excess
from attsvm.training.losses import loss_of


def prompts(seeds: Sequence[int], n: int, T: int, d: int) -> Drawn:
    """Random tokens on the sphere, without queries, and heads: a family of studies."""
    arrays = [sphere_arrays(n, T, d, seed=seed) for seed in seeds]
    tokens = [Tokens(one["X"], labels=one["y"]) for one in arrays]
    return Drawn(tokens, np.stack([one["v"] for one in arrays]))


def separable(certificate: Certificate) -> bool:
    """Whether a solution is certified."""
    return certificate.W is not None and float(certificate.gap) <= 1e-9


def unsettled(certificate: Certificate) -> bool:
    """Whether a problem is neither solved nor proved infeasible."""
    return not separable(certificate) and certificate.proof != "exact"


@dataclass(frozen=True, eq=False)
class PromptMeasures:
    """What is measured at prompts p (R, d) of one instance, under one loss.

    log_excess (R,): log of the loss above its infimum, by `excess`; gradient (R, d) times
    e^log_scale (R,); away (R,): 0 where p is stationary in its own ball; right (R,): whether the
    best token of every input leads.
    """

    excess: Excess
    log_excess: Floats
    gradient: Floats
    log_scale: Floats
    away: Floats
    right: Bools


def prompt_measures(tokens: Tokens, v: Floats, loss: str, p: Floats) -> PromptMeasures:
    """The PromptMeasures of prompts (R, d), computed from the data."""
    best = Selection.best(tokens, v).indices
    found = evaluate_at(tokens, v, p, model="prompt", loss=loss)
    excess = Excess.over(tokens, best, v, loss_of(loss))
    G = found.gradient.direction["p"]
    norm = norm_of("frobenius")
    away = [stationarity(norm, x[:, None], g[:, None])[0] for x, g in zip(p, G, strict=True)]
    right = [bool((selected_by(tokens, x[:, None]) == best).all()) for x in p]
    return PromptMeasures(
        excess,
        np.array([excess(logs).log for logs in found.logs]),
        G,
        found.gradient.log_scale["p"],
        np.array(away),
        np.array(right),
    )


def sure_margins(excess: Excess, log_loss: Floats, members: int = 1) -> Floats:
    """δ (R,), below all margins of the leading good token of every p whose loss is this low.

    excess: over the good tokens, `members` in each input; log_loss (R,): log of the loss above its
    floor. The loss is convex, so n e^log_loss ≥ |ℓ'(γ)| s_t (γ − γ_t) bounds the attention s_t of
    every other token, and one of the good ones has its share of the rest. −inf where this says
    nothing.
    """
    slope = excess.loss.slope(excess.scores)[1][:, None]
    rivals = excess.signs > 0
    out = np.full(len(log_loss), -np.inf)
    for k, log in enumerate(log_loss):
        most = np.where(rivals, log + np.log(len(slope)) - slope - excess.logs, -np.inf)
        lost = np.exp(np.minimum(most, 0.0)).sum(axis=1, where=rivals)
        if (lost < 1.0).all():
            out[k] = float((np.log1p(-lost)[:, None] - np.log(members) - most).min())
    return out


def least_cosine(delta: Floats, sizes: Floats, least: float) -> Floats:
    """Below the cosine to p^mm of every p of these norms (R,) with all margins at least δ (R,).

    least: a lower bound of ‖p^mm‖. p/δ is feasible, and ⟨p/δ, p^mm⟩ ≥ ‖p^mm‖² since p^mm is the
    least feasible point. −1 where δ is not positive.
    """
    return np.maximum(delta * least / sizes, -1.0)

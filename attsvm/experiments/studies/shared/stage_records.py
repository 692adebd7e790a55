"""Runs of both stages over several sets: their solutions kept and certified again, and what is
measured along their records.

Shared by the claims on the two stages. A config of theirs has vocabulary, length, count (the sets),
seeds, and rates: the step sizes of the stages times √N. `drawn` gives the sentences of a seed, and
`inside` whether they meet the premises of [huang2024nexttoken], which `premises` counts in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate, certify
from attsvm.datasets.sentences import closed
from attsvm.experiments.studies.claim import Config, Result
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions
from attsvm.experiments.studies.shared.sentence_runs import columns_again, saved_columns
from attsvm.next_token.attention import Contexts
from attsvm.next_token.infimum import excess
from attsvm.next_token.order import Order, orders
from attsvm.next_token.problems import Columns, decoder_problem, solve_attention, solve_decoder
from attsvm.next_token.realizable import realizability
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.gradient import LossAndGrad, attention_loss, decoder_loss
from attsvm.theory.measures import bregman
from attsvm.theory.rates import fit


def drawn(config: Config, seed: int) -> Sentences:
    """The prefix-closed set without confused tokens of this seed, from `count` first tokens.

    Every sentence and every collocation counts once.
    """
    N = config["vocabulary"]
    return Sentences.of(closed(N, config["length"], config["count"], seed), vocabulary=N)


def inside(sentences: Sentences, found: Mapping[int, Order]) -> bool:
    """Whether the set meets Assumptions 1 and 3 of the paper and holds all its prefixes."""
    asked = realizability(sentences, found)
    return not asked.outside and asked.closed


def premises(judged: int, total: int) -> str:
    """How many sets are inside, in words."""
    return (
        f"{judged} of {total} random sets meet the premises (realizable, prefix-closed, no "
        "confused token, none more often than the optimal one, tokens orthonormal)"
    )


def starts(config: Config, seed: int) -> dict[str, Floats]:
    """Entries of W_ov and W_kq uniform between −edge and edge: the start of the published figure,
    whose edge is 0.1."""
    N, edge = config["vocabulary"], config["edge"]
    W_ov, W_kq = np.random.default_rng([seed, 1]).uniform(-edge, edge, (2, N, N))
    return {"W_ov": W_ov, "W_kq": W_kq}


def step_size(config: Config, stage: int) -> float:
    """The published step size of a stage: 0.2/√N and 0.05/√N."""
    return float(config["rates"][stage] / np.sqrt(config["vocabulary"]))


def first_look(data: Sentences) -> LossAndGrad:
    """L_0, the mean over all collocations, and its gradient."""
    tokens = np.flatnonzero(data.follows >= 0)
    share = np.full(len(tokens), 1.0 / len(tokens))
    return decoder_loss(np.eye(data.vocabulary), tokens, data.follows[tokens], share)


def second_look(data: Sentences, W_ov: Floats) -> LossAndGrad:
    """L over the frozen decoder W_ov and its gradient."""
    return attention_loss(Contexts.of(data, np.eye(data.vocabulary)), W_ov.T)


def decoder_best(data: Sentences) -> Certificate:
    """W_ov⋆ in closed form, certified: every margin has the multiplier 1/N."""
    E = np.eye(data.vocabulary)
    posed = decoder_problem(data, E)
    return certify(posed, "frobenius", solve_decoder(data, E).W, np.full(posed.m, 1.0 / len(E)))


def solutions(data: Sequence[Sentences]) -> Result:
    """Both solutions of every set, with their multipliers."""
    out: Result = {}
    for b, one in enumerate(data):
        out |= saved_solutions(f"decoder.{b}", [decoder_best(one)])
        out |= saved_columns(f"attention.{b}", solve_attention(orders(one), np.eye(one.vocabulary)))
    return out


def targets(data: Sequence[Sentences], result: Result) -> tuple[list[Certificate], list[Columns]]:
    """(W_ov⋆, W_kq⋆) of every set, certified again from the data."""
    first, second = [], []
    for b, one in enumerate(data):
        posed = decoder_problem(one, np.eye(one.vocabulary))
        first += recertified(f"decoder.{b}", [posed], "frobenius", result)
        second.append(columns_again(f"attention.{b}", orders(one), result))
    return first, second


def worst(best: Sequence[Certificate | Columns]) -> float:
    """The largest certified gap."""
    return max((float(one.gap) for one in best), default=0.0)


def away(W: Floats, best: Certificate | Columns) -> Floats:
    """1 − cos (R,) of the records (R, …) after the start; nan without a certified solution."""
    if best.W is None or not np.isfinite(best.gap):
        return np.full(len(W), np.nan)
    return np.asarray(bregman(W, best.W, 2.0))


def rises(data: Sentences, W_ov: Floats, W_kq: Floats) -> Floats:
    """L − L⋆ (R,) of the records W_kq (R, N, N) over the frozen decoder W_ov."""
    contexts = Contexts.of(data, np.eye(data.vocabulary))
    return np.array([excess(contexts, W_ov.T, W) for W in W_kq])


def losses(look: LossAndGrad, W: Floats) -> Floats:
    """L_0 (R,) of the records W (R, N, N)."""
    return np.array([float(look({"W_ov": one[None]}).loss[0]) for one in W])


def decay(steps: Ints, above: Floats, late: int) -> tuple[float, float, float]:
    """(a, its error, R²) of the fit of c e^(−a t) to the steps from `late` on; nan of what is not
    positive."""
    seen = steps >= late
    if not (above[seen] > 0).all():
        return np.nan, np.nan, np.nan
    law = fit(steps[seen], above[seen], "exponential", tail=1.0)
    return float(law.exponent or 0.0), float(law.exponent_error or 0.0), law.goodness

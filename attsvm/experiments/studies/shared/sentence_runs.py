"""Random realizable sentences, both stages of training on them, and columns certified again.

What the claims on next-token prediction share. A config of theirs has

    vocabulary, length, count     the sets: N tokens, sentences of this many tokens, how many
    seeds                         how many sets
    steps, rates                  of the two stages: updates, and step sizes times √N

`drawn` gives the sentences of a seed, `staged` the two runs on them. A result keeps ends
(`ends_kept`) or whole paths (`paths_kept`) under a name, and the solution W_kq with the multipliers
of every column (`saved_columns`), which `columns_again` certifies from the orders alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate, certify
from attsvm.datasets.sentences import realizable
from attsvm.experiments.studies.claim import Config, Result
from attsvm.next_token.order import Order
from attsvm.next_token.problems import Columns, column_problem
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.train import Stages


def drawn(config: Config, seed: int) -> Sentences:
    """The realizable set of this seed."""
    return Sentences.of(
        realizable(config["vocabulary"], config["length"], config["count"], seed),
        vocabulary=config["vocabulary"],
    )


def staged(config: Config, sentences: Sentences) -> Stages:
    """Both stages by the config's steps and rates, as `two_stages` trains them."""
    lr = np.array(config["rates"]) / np.sqrt(sentences.vocabulary)
    steps = config["steps"]
    first = train(sentences, model="decoder", lr=float(lr[0]), steps=steps[0])
    second = train(sentences, model="next-token", head=first, lr=float(lr[1]), steps=steps[1])
    return Stages(sentences, np.eye(sentences.vocabulary), first, second)


def ends_kept(name: str, stages: Stages) -> Result:
    """W_ov and W_kq at the end of their stages."""
    return {f"{name}.W_ov": stages.W_ov, f"{name}.W_kq": stages.W_kq}


def paths_kept(name: str, stages: Stages) -> Result:
    """The records of both stages: W_ov (R, N, d) and W_kq (R', d, d), with their steps and
    losses."""
    runs = {"W_ov": stages.decoder, "W_kq": stages.attention}
    out: Result = {}
    for block, path in runs.items():
        out[f"{name}.{block}"] = path.weights[block][:, 0]
        out[f"{name}.{block}.steps"] = path.steps
        out[f"{name}.{block}.loss"] = path.loss[:, 0]
    return out


def saved_columns(name: str, columns: Columns) -> Result:
    """The solution W_kq⋆ (N, N) of orthonormal tokens and the multipliers of all its columns."""
    multipliers = [np.zeros(0), *(piece.multipliers for piece in columns.pieces)]
    return {f"{name}.W": columns.W, f"{name}.multipliers": np.concatenate(multipliers)}


def columns_again(name: str, orders: Mapping[int, Order], result: Result) -> Columns:
    """The kept solution, with the certificate that each column and its multipliers support.

    A column that is not 0 at a token outside its order, not the same at tied tokens, or whose
    least margin is not 1 is no solution and is not certified. W is the kept matrix as it is.
    """
    W, multipliers = result[f"{name}.W"], result[f"{name}.multipliers"]
    pieces, start = [], 0
    for order in orders.values():
        if len(order.covers[0]):
            end = start + len(order.covers[0])
            pieces.append(_certified(order, W[:, order.query], multipliers[start:end]))
            start = end
    return Columns(W, tuple(pieces), (1,) * len(pieces))


def _certified(order: Order, u: Floats, multipliers: Floats) -> Certificate:
    """What one column u (N,) and its multipliers prove."""
    problem = column_problem(order)
    ours = u[order.tokens]
    plain = ours[order.first]
    x = plain * np.sqrt(np.bincount(order.component))
    whole = (np.delete(u, order.tokens) == 0).all() and (ours == plain[order.component]).all()
    # A certificate scales W to margin 1; the kept column must have it as it stands.
    whole = whole and abs(float(problem.margins(x[:, None]).min()) - 1) <= 1e-9
    return certify(problem, "frobenius", x if whole else None, multipliers)

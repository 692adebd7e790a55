"""Solutions kept in a result, and certified again from the data when the claim is judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate, certify
from attsvm.experiments.studies.claim import Result
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.theory.measures import correlation, margin_share


def saved_solutions(name: str, certificates: Sequence[Certificate]) -> Result:
    """The solutions (B) of problems of one size under this name: W, multipliers, tie multipliers.

    W is nan where no W is known.
    """
    shape = certificates[0].problem.shape
    return {
        f"{name}.W": np.stack(
            [np.full(shape, np.nan) if c.W is None else np.asarray(c.W) for c in certificates]
        ),
        f"{name}.multipliers": np.stack([c.multipliers for c in certificates]),
        f"{name}.ties": np.stack([c.tie_multipliers for c in certificates]),
    }


def recertified(
    name: str, problems: Sequence[Problem], norm: str | Norm, result: Result
) -> list[Certificate]:
    """The Certificates that the kept solutions support, recomputed from the problems."""
    W, lam, mu = (result[f"{name}.{part}"] for part in ("W", "multipliers", "ties"))
    return [
        certify(p, norm, None if np.isnan(W[b]).any() else W[b], lam[b], mu[b])
        for b, p in enumerate(problems)
    ]


def worst_gap(certificates: Sequence[Certificate]) -> float:
    """The largest gap; infinite when one of the solutions is not certified at all."""
    return max((float(c.gap) for c in certificates), default=0.0)


def cosine(W: Floats, certificate: Certificate) -> float:
    """The correlation of W with the certified solution; nan when none is certified, or W = 0."""
    if certificate.W is None or not np.any(W):
        return float("nan")
    return float(correlation(W, certificate))


def share(W: Floats, certificate: Certificate) -> float:
    """The certified margin share of W; nan when no solution is certified, or W = 0."""
    if certificate.W is None or not np.any(W):
        return float("nan")
    return float(margin_share(W, certificate))


def selected(tokens: Tokens, W: Floats) -> Ints:
    """The token of each input (n,) with the largest logit k_t·W z under W (d, dq)."""
    keys = np.asarray(tokens.keys, dtype=np.float64)
    source = keys if tokens.source is None else keys[tokens.source]
    logits = np.einsum("ntd,dq,nq->nt", source, W, tokens.queries)
    return np.where(tokens.present(), logits, -np.inf).argmax(axis=1)

"""Tampered results of the claim on cyclic data."""

import numpy as np

from attsvm.claims.d.cyclic_data import CLAIM
from tests.claims.tampering.ways import backwards, changed

_SEED = CLAIM.quick["seeds"][0]
_RUN = f"{_SEED}.{CLAIM.quick['judged']}.W"


def _without_ties(W):
    """Log-odds of another kind: the entries of every column in another order."""
    return np.roll(W, 1, axis=1)


def _stopped(W):
    """A run that went no further than its first records."""
    return np.concatenate([W[: len(W) // 3], np.repeat(W[len(W) // 3][None], len(W), 0)])[: len(W)]


TAMPERED = {
    "D.cyclic-data": (
        ("the path backwards", backwards(_RUN)),
        ("tokens in another order", changed(_RUN, _without_ties)),
        ("a run that stopped early", changed(_RUN, _stopped)),
        ("a solution with broken ties", changed(f"{_SEED}.best.W", lambda W: W + 0.1 * np.eye(8))),
        (
            "multipliers in another order",
            changed(f"{_SEED}.best.multipliers", lambda lam: lam[:, ::-1].copy()),
        ),
    ),
}

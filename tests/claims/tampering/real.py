"""Tampered results of the claims on real data."""

import numpy as np

from tests.claims.tampering.ways import changed, rolled


def raised(name):
    """Test accuracies in the records that are higher than they were."""

    def lift(a):
        a[:, :, 5] += 0.1
        return a

    return changed(name, lift)


def better(name):
    """Inputs that were wrong made right."""
    return changed(name, lambda a: np.ones_like(a))


def swapped(first, second):
    """Two arrays in each other's place."""
    return lambda config, result: {
        **result, first: np.array(result[second]), second: np.array(result[first]),
    }  # fmt: skip


OTHER_RATE = ("a rate that tuning does not choose", changed("rate.1.1", lambda a: a * 2))

TAMPERED = {
    "C.real-sentences": (
        ("the end of p = 3 as that of p = 1.1", swapped("0.3.W", "0.1.1.W")),
        ("the ℓ3 solution as the ℓ1.5 one", swapped("0.2.3.W", "0.2.1.5.W")),
        ("multipliers in another order", rolled("0.2.2.multipliers", axis=1)),
        ("a solution turned away", changed("0.3.3.W", lambda W: W + 0.3 * W[:, ::-1])),
    ),
    "C.real-text": (
        OTHER_RATE,
        ("test texts made right", better("1.1.right")),
        ("records with a higher accuracy", raised("1.1.records")),
    ),
    "C.sparser-weights": (
        OTHER_RATE,
        ("keys with zeros", changed("1.1.K", lambda a: np.where(np.abs(a) > 0.1, 0, a))),
        ("keys and values swapped", swapped("1.1.K", "1.1.V")),
    ),
    "C.opinion-words": (
        OTHER_RATE,
        ("more attention than there is", changed("1.1.attention", lambda a: 1.2 * a)),
        ("sentences with more attention", changed("2.sentences", lambda a: 1.2 * a)),
    ),
    "C.real-images": (
        OTHER_RATE,
        ("test images made right", better("1.1.right")),
        ("values with zeros", changed("1.1.V", lambda a: np.where(np.abs(a) > 0.1, 0, a))),
    ),
    "A.sparsification": (
        ("a rate that tuning does not choose", changed("rate.Adam", lambda a: a * 2)),
        ("spread backwards", changed("Adam.spread", lambda a: a[:, ::-1].copy())),
        ("weights that shrink", changed("Adam.size", lambda a: a[:, ::-1].copy())),
        ("maps of more attention than there is", changed("Adam.maps", lambda a: 9 * a)),
    ),
}

"""Tampered results of the claims beyond the four papers."""

import numpy as np

from tests.claims.tampering.ways import backwards, changed, rolled


def taken(name, source):
    """One array in place of another."""
    return lambda config, result: {**result, name: np.array(result[source])}


def lengthened(name):
    """Weights that are longer than the decay allows."""
    return changed(name, lambda a: 1.2 * a)


TAMPERED = {
    "beyond.rules-against-norms": (
        ("the weights of sign descent as those of normalized descent",
         taken("weight ngd", "weight sign")),
        ("the solutions of the wrong norm", taken("best.spectral.W", "best.nuclear.W")),
        ("the weights of other instances", rolled("factored ngd")),
    ),
    "beyond.factored-spectral": (
        ("the narrow factors as the wide ones", taken("width 5", "width 2")),
        ("the solutions of the wrong norm", taken("best.spectral.W", "best.nuclear.W")),
        ("the weights of other instances", rolled("weight")),
    ),
    "beyond.saturation-is-not-convergence": (
        ("the watched path backwards", backwards("watched")),
        ("the ends of other instances", rolled("W", axis=1)),
        ("the watched run as if it had never left", changed(
            "watched", lambda a: np.where(np.arange(len(a))[:, None, None, None] > len(a) * 3 // 4,
                                          a[len(a) * 3 // 4], a))),
    ),
    "beyond.float-drift": (
        ("the exact run in place of the plain one", taken("plain.W", "exact.W")),
        ("the plain run in place of the exact one", taken("exact.W", "plain.W")),
        ("the exact run in place of the one with eps", taken("plain with eps.W", "exact.W")),
    ),
    "beyond.logit-ceiling": (
        ("weights longer than the decay allows", lengthened("weight ngd.decay.W")),
        ("the run without decay as the one with it",
         taken("factored spectral.decay.K", "factored spectral.free.K")),
        ("the solutions of other instances", rolled("best.max.W")),
    ),
    "beyond.proved-runs": (
        ("proofs one record before the first", changed(
            "6x8x10 ngd 0.1.W", lambda a: a[[0, 0, 2, 3]])),
        ("runs as proved that are not", changed("6x8x10 gd 50.proved", np.ones_like)),
        ("the later weights of other instances", changed(
            "6x8x10 ngd 1.W", lambda a: np.concatenate([a[:2], np.roll(a[2:], 1, axis=1)]))),
        ("the solutions of other instances", rolled("6x8x10 ngd 0.02.best.W")),
    ),
    "beyond.basins-by-proof": (
        ("every start as proved", changed("plane 100.proved", np.ones_like)),
        ("no start as proved", changed("plane 100.proved", np.zeros_like)),
        ("the paths backwards", backwards("slice 100.W")),
        ("the ends of other starts", changed(
            "plane 100.W", lambda a: np.concatenate([a[:-1], np.roll(a[-1:], 6, axis=1)]))),
    ),
    "beyond.saturation-time": (
        ("times before the least possible", changed("decay 0 lr 1.at", lambda a: a // 3)),
        ("weights longer than the steps", lengthened("decay 0.03 lr 1.W")),
        ("the weights of other instances", rolled("decay 0 lr 0.3.W", axis=1)),
        ("the solutions of other instances", rolled("decay 0.03 lr 0.3.best.W")),
    ),
    "beyond.flipped-labels": (
        ("the solutions without flips as those with them",
         taken("flip 0.2 signal 4.W", "flip 0 signal 4.W")),
        ("the solutions of other instances", rolled("flip 0 signal 4.W")),
        ("multipliers that promise more", changed(
            "flip 0.2 signal 0.5.multipliers", lambda a: np.roll(a, 1, axis=0))),
    ),
    "beyond.mini-batches": (
        ("all inputs as batches of one", taken("own 1", "own 8")),
        ("batches of one as all inputs", taken("full 8", "full 1")),
        ("the weights of other instances", rolled("full 1")),
        ("the solutions of other instances", rolled("best.W")),
    ),
}  # fmt: skip

"""Tampered results of the claims of paper C."""

import numpy as np

from tests.claims.tampering.ways import backwards, changed, rolled


def taken(name, source):
    """One array in place of another: the run or the solution of another exponent."""
    return lambda config, result: {**result, name: np.array(result[source])}


def swapped(first, second):
    """Two arrays in each other's place."""
    return lambda config, result: {
        **result, first: np.array(result[second]), second: np.array(result[first]),
    }  # fmt: skip


def held_back(name):
    """A path whose late records are as they were in the middle of it: it went no further."""
    return changed(name, lambda a: np.concatenate([a[: len(a) // 2], a[len(a) // 2 :] * 0 + a[5]]))


def turned(name, size=0.3):
    """Matrices with some of another direction in them."""

    def mix(a):
        other = np.random.default_rng(0).standard_normal(a.shape)
        scale = np.linalg.norm(a) / np.linalg.norm(other)
        return a + size * scale * other

    return changed(name, mix)


TAMPERED = {
    "C.cross-p-divergence": (
        ("the runs of p = 3 and p = 1.75 swapped", swapped("3.W", "1.75.W")),
        ("the solutions of other instances", rolled("2.best.W")),
        ("the path backwards", backwards("3.W")),
    ),
    "C.single-instance": (
        ("the run of p = 2 as that of p = 3", taken("3.W", "2.W")),
        ("the ℓ1.75 solution as the ℓ3 one", taken("3.best.W", "1.75.best.W")),
        ("the path backwards", backwards("1.75.W")),
    ),
    "C.joint-mirror": (
        ("the run of p = 2 as that of p = 3", taken("3.W", "2.W")),
        ("the ℓ3 solution as the ℓ1.75 one", taken("1.75.W.1.75.W", "1.75.W.3.W")),
        ("the decoder's path backwards", backwards("2.v")),
    ),
    "C.mirror-rates": (
        ("the ℓ3 solutions as the ℓ1.75 ones", taken("1.75.best.W", "3.best.W")),
        ("runs that went no further than their start", held_back("2.W")),
        ("the solutions of other instances", rolled("3.best.W")),
    ),
    "C.mirror-path": (
        ("the paths of p = 1.75 and p = 3 swapped", swapped("1.75.W", "3.W")),
        ("the paths of other instances", rolled("2.W")),
        ("paths turned away a little", turned("3.W", 0.05)),
    ),
    "C.joint-mirror-path": (
        ("the paths of p = 1.75 and p = 3 swapped", swapped("1.75.W", "3.W")),
        ("the path backwards", backwards("2.W")),
        ("the decoder's paths turned away a little", turned("3.v", 0.2)),
    ),
}

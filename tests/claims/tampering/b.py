"""Tampered results of the claims of paper B."""

import numpy as np

from tests.claims.tampering.ways import backwards, changed, rolled


def _transposed(name):
    """Matrices transposed in their last two axes."""
    return changed(name, lambda a: np.swapaxes(a, -1, -2))


def _negated(name):
    """Weights that point the other way."""
    return changed(name, lambda a: -a)


def _taken_from(name, other):
    """One array put in place of another of the same shape: the solution of the wrong norm."""

    def tamper(config, result):
        return {**result, name: np.array(result[other])}

    return tamper


def _small(name):
    """Weights shrunk until attention is spread."""
    return changed(name, lambda a: 1e-3 * a)


def _noisy(name, size=0.3):
    """Weights with noise of a share of their size, as rounding makes of a float gradient."""

    def change(a):
        noise = np.random.default_rng(0).standard_normal(a.shape)
        return a + size * np.abs(a).max(axis=(-2, -1), keepdims=True) * noise

    return changed(name, change)


def _infeasible(name):
    """A problem that is solved, passed off as one without a solution."""
    return changed(name, lambda a: np.full_like(a, np.nan))


_PLANE = (
    ("the path backwards", backwards("weight.W")),
    ("the Frobenius solution in place of the nuclear one",
     _taken_from("factored.best.W", "weight.best.W")),
    ("the factors exchanged", _taken_from("factored.K", "factored.Q")),
)  # fmt: skip

_MULTI = (
    ("the directions of other runs", rolled("4.direction.W")),
    ("the finite parts of other runs", rolled("4.finite.W")),
    ("weights of other runs", rolled("4.W", axis=1)),
    ("weights with noise", _noisy("4.W")),
)

_PATH = (
    ("the path backwards", changed("W", lambda a: a[:, ::-1])),
    ("solutions of other instances", rolled("best.W")),
    ("weights transposed", _transposed("W")),
)

TAMPERED = {
    "B.path-picture-1": _PLANE,
    "B.path-picture-2": _PLANE,
    "B.local-convergence": (
        ("the nuclear solutions in place of the Frobenius ones",
         _taken_from("weight.frobenius.W", "weight.nuclear.W")),
        ("solutions of other instances", rolled("factored.nuclear.W")),
        ("weights with noise", _noisy("weight.W")),
    ),
    "B.rank": (
        ("the Frobenius solutions in place of the nuclear ones",
         _taken_from("15.5.20.nuclear.W", "15.5.20.frobenius.W")),
        ("the nuclear solutions in place of the Frobenius ones",
         _taken_from("15.5.20.frobenius.W", "15.5.20.nuclear.W")),
        ("solved problems passed off as infeasible", _infeasible("5.5.20.frobenius.W")),
    ),
    "B.multi-token-relu": _MULTI,
    "B.multi-token-quadratic": _MULTI,
    "B.separability-against-dimension": (
        ("a solution taken away", _infeasible("cross.5.5.6.W")),
        ("solutions of other instances", rolled("self.5.5.8.W")),
        ("proofs of other instances", rolled("cross.10.5.1.multipliers")),
    ),
    "B.ends-against-dimension": (
        ("weights of other instances", rolled("20.W", axis=1)),
        ("solutions of other instances", rolled("20.nuclear.W")),
        ("weights shrunk until nothing is decided", _small("20.KQ")),
    ),
    "B.global-share-against-dimension": (
        ("weights of other instances", rolled("W.5.5.20.W", axis=1)),
        ("weights negated", _negated("KQ.5.20.20.W")),
        ("weights of no run", changed("KQ.5.5.20.W", np.zeros_like)),
    ),
    "B.width-against-nuclear": (
        ("factors of other instances", rolled("10.K")),
        ("solutions of other instances", rolled("5.nuclear.W")),
        ("factors with noise", _noisy("5.Q")),
    ),
    "B.no-stationary-points": (
        ("the points negated on loose instances", changed("3.W", np.zeros_like)),
        ("solutions of other instances", rolled("200.best.W")),
        ("solutions negated", _negated("200.best.W")),
    ),
    "B.equal-scores-global": (
        ("the path backwards", backwards("ngd.0.W")),
        ("solutions of other instances", rolled("best.W")),
        ("weights with noise", _noisy("gd.1.W")),
    ),
    "B.initial-gradient-condition": (
        ("the path backwards", backwards("W")),
        ("solutions of other instances", rolled("best.W")),
        ("weights with noise", _noisy("W")),
    ),
    "B.local-if-and-only-if": (
        ("runs that never left", changed("W", lambda a: np.repeat(a[:1], len(a), axis=0))),
        ("the path backwards", backwards("W")),
        ("solutions of other selections", rolled("best.W")),
    ),
    "B.regularization-path-frobenius": _PATH,
    "B.regularization-path-nuclear": _PATH,
    "B.self-attention": (
        ("weights of other instances", rolled("self-attention.W", axis=1)),
        ("solutions of other instances", rolled("self-attention.best.W")),
        ("weights with noise", _noisy("cross-attention.W")),
    ),
    "B.sequence-attention": (
        ("weights transposed", _transposed("causal.W")),
        ("solutions of other instances", rolled("causal.best.W")),
        ("the path backwards", backwards("all positions.W")),
    ),
    "B.two-layer": (
        ("another first layer", rolled("first layer.W", axis=1)),
        ("solutions of other instances", rolled("second layer.best.W")),
        ("the path backwards", backwards("second layer.W")),
    ),
}  # fmt: skip

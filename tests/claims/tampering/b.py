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


def _cones_enlarged(config, result):
    """Norms of the fixed points that no solution supports."""
    names = [k for k in result if k.startswith("frobenius") and k.endswith("sizes")]
    return {**result, **{k: 2 * result[k] for k in names}}


_PLANE = (
    ("the path backwards", backwards("weight.W")),
    ("the Frobenius solution in place of the nuclear one",
     _taken_from("factored.best.W", "weight.best.W")),
    ("the factors exchanged", _taken_from("factored.K", "factored.Q")),
)  # fmt: skip


def _multi(cell, end):
    """Of a cell of runs with a nonlinear head."""
    return (
        ("the directions of other runs", rolled(f"{cell}.{end}.direction.W")),
        ("the finite parts of other runs", rolled(f"{cell}.{end}.finite.W")),
        ("weights of other runs", rolled(f"{cell}.W", axis=1)),
        ("weights with noise", _noisy(f"{cell}.W")),
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
        ("factors with the ridge taken from other instances", rolled("ridge.K", axis=1)),
    ),
    "B.rank": (
        ("the Frobenius solutions in place of the nuclear ones",
         _taken_from("15.5.20.nuclear.W", "15.5.20.frobenius.W")),
        ("the nuclear solutions in place of the Frobenius ones",
         _taken_from("15.5.20.frobenius.W", "15.5.20.nuclear.W")),
        ("solved problems passed off as infeasible", _infeasible("5.5.20.frobenius.W")),
    ),
    "B.multi-token-relu": _multi("relu-v.exact.4", 2000),
    "B.multi-token-quadratic": _multi("quadratic.exact.4", 8000),
    "B.separability-against-dimension": (
        ("a solution taken away", _infeasible("cross.5.5.8.W")),
        ("solutions of other instances", rolled("self.5.5.8.W")),
        ("proofs of other instances", rolled("cross.10.5.1.multipliers")),
        ("one of all selections taken away", _infeasible("every.self.2.5.4.W")),
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
        ("points of no loose instance where the loss rises", changed("3.W", np.zeros_like)),
        ("solutions of other instances", rolled("200.best.W")),
        ("solutions negated", _negated("200.best.W")),
        ("the path backwards", backwards("equal.0.path")),
    ),
    "B.equal-scores-global": (
        ("the path backwards", backwards("two.W")),
        ("solutions of other instances", rolled("random.3.3.4.best.W")),
        ("weights with noise", _noisy("random.2.2.2.W")),
    ),
    "B.loss-level": (
        ("the path backwards", backwards("free.edge.W")),
        ("solutions of other instances", rolled("equal.best.W")),
        ("the flow of other instances", rolled("free.edge.flow")),
    ),
    "B.nearly-equal-scores": (
        ("runs of other instances", rolled("1.W")),
        ("solutions of other instances", rolled("best.W")),
        ("weights shrunk", _small("0.W")),
    ),
    "B.initial-gradient-condition": (
        ("the path backwards", backwards("three.W")),
        ("weights with noise", _noisy("random.3.4.24.W", size=3.0)),
        ("solutions of other instances", rolled("random.3.4.6.best.W")),
        ("solutions negated", _negated("three.best.W")),
    ),
    "B.local-if-and-only-if": (
        ("runs that never left", changed("W", lambda a: np.repeat(a[:1], len(a), axis=0))),
        ("the path backwards", backwards("W")),
        ("solutions of other selections", rolled("best.W")),
        ("runs from the edges of other cones", rolled("stated.W", axis=1)),
        ("least norms that are too small", changed("stated.ours", lambda a: a / 100)),
    ),
    "B.local-path": (
        ("the path backwards", backwards("frobenius.0.path")),
        ("solutions of other selections", rolled("l3.every.W")),
        ("the path of another norm", _taken_from("l3.0.path", "frobenius.0.path")),
        ("larger norms in the cone than there are", _cones_enlarged),
    ),
    "B.low-rank": (
        ("weights transposed", _transposed("3.5.6.3.frobenius.W")),
        ("solutions of other selections", rolled("6.4.6.2.nuclear.W")),
        ("a little off the span of the queries", _noisy("3.5.6.3.frobenius.W", 1e-10)),
    ),
    "B.simplex-projection": (
        ("the path backwards", backwards("W")),
        ("weights of other instances", rolled("W", axis=1)),
        ("weights shrunk", _small("W")),
    ),
    "B.conjecture": (
        ("solutions of other selections", rolled("22.every.W")),
        ("weights shrunk", _small("22.ngd.W")),
        ("weights of other instances", rolled("22.ngd.W", axis=1)),
    ),
    "B.all-tight-against-dimension": (
        ("solutions of other instances", rolled("4.5.8.W")),
        ("solutions taken away", _infeasible("derived.5.8.W")),
        ("weights with noise", _noisy("1.5.3.W", 1e-3)),
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

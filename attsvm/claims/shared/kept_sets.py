"""Interchangeable good tokens under a ReLU head: the instances, and their loss in full accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from attsvm.claims.claim import Config
from attsvm.ground.arrays import Bools, Floats
from attsvm.heads.relu import Relu
from attsvm.losses import loss_of
from attsvm.models import model_of
from attsvm.models.gradient.batch import Batch
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.balls.ball import BallTask
from attsvm.theory.balls.excess import Excess, Signed


@dataclass(frozen=True, eq=False)
class Instance:
    """Tokens whose kept sets share their value, the head, and the sets.

    All labels are +1 and h is convex, so h(o) ≤ h(g) − Σ_t s_t (h(g) − h(x_t)) with g the kept
    value: attention off the sets costs loss, wherever it goes.
    """

    tokens: Tokens
    head: Relu
    sets: Selection


def draw(config: Config, seed: int) -> Instance:
    """Random keys and values; the value of highest h is given to the first `kept` tokens."""
    n, T, d, e = (int(config[name]) for name in ("n", "T", "d", "e"))
    size = int(config["kept"])
    stream = np.random.default_rng(seed)
    V = stream.standard_normal((1, e, int(config["units"])))
    head = Relu(V / np.linalg.norm(V))
    keys, X = stream.standard_normal((n, T, d)), stream.standard_normal((n, T, e))
    best = head.value(X).argmax(axis=1)
    kept = np.zeros((n, T), dtype=bool)
    kept[:, :size] = True
    good = X[np.arange(n), best].copy()
    X[np.arange(n), best] = X[:, 0]
    X[kept] = np.repeat(good, size, axis=0)
    tokens = Tokens(X, keys=keys, labels=np.ones(n))
    return Instance(tokens, head, Selection.of(tokens, kept))


def pieces(instance: Instance) -> list[Problem]:
    """The convex problems of the union, one for each choice of winners."""
    members = [np.flatnonzero(row) for row in instance.sets.kept]
    return [Problem.any_of(instance.tokens, instance.sets, w) for w in product(*members)]


@dataclass(frozen=True, eq=False)
class SetExcess(Excess):
    """The loss above that of the kept values, for the logistic loss and a ReLU head.

    signs, logs (n, T): h(g_i) − h(x_it), 0 on the sets. units (n, T, j): V_j·(g_i − x_it); own
    (n, j): V_j·g_i. h(g) − h(o) is summed over the units from the change e^m c of each, m the
    largest log attention off the set, so that it keeps its digits.
    """

    units: Floats
    own: Floats
    kept: Bools

    @classmethod
    def of(cls, instance: Instance) -> SetExcess:
        """The excess over the kept sets of an instance."""
        X, V = np.asarray(instance.tokens.X), instance.head.V[0]
        kept: Bools = instance.sets.kept
        good = X[np.arange(len(X)), kept.argmax(axis=1)]
        scores = np.maximum(good @ V, 0.0).sum(axis=1)
        loss = loss_of("logistic")
        gaps = scores[:, None] - instance.head.value(X[None])[0]
        logs = np.log(gaps, out=np.full(gaps.shape, -np.inf), where=~kept & (gaps > 0))
        floor = float(loss.value(scores).mean())
        return cls(loss, np.where(kept, 0.0, np.sign(gaps)), logs, scores, floor,
                   (good[:, None] - X) @ V, good @ V, kept)  # fmt: skip

    def __call__(self, attention: Floats) -> Signed:
        """L − floor at log attention (n, T): ℓ(γ − δ) − ℓ(γ) = log(1 + (e^δ − 1)/(1 + e^γ))."""
        off = np.where(self.kept, -np.inf, attention)
        top = off.max(axis=1)
        change = np.einsum("nt,ntj->nj", np.exp(off - top[:, None]), self.units)
        with np.errstate(divide="ignore"):
            reach = np.exp(np.minimum(np.log(np.abs(self.own)) - top[:, None], 700.0))
        # max(0, a) − max(0, a − e^m c), over e^m, with a = ±e^m reach.
        fall = np.where(self.own > 0, np.minimum(change, reach), np.minimum(change + reach, 0.0))
        log = top + np.log(fall.sum(axis=1))
        short = log - np.logaddexp(0.0, self.scores)
        delta = np.exp(np.maximum(log, -30.0))
        long = np.log(np.log1p(np.expm1(delta) / (1 + np.exp(self.scores))))
        sizes = np.where(log < -20.0, short, long)
        return Signed(1, float(np.logaddexp.reduce(sizes) - np.log(len(sizes))))


def task(instance: Instance) -> BallTask:
    """The minimisation of the logistic loss over prompts."""
    return BallTask(Batch.of(instance.tokens), model_of("prompt"), norm_of("frobenius"),
                loss_of("logistic"), instance.head, 1, SetExcess.of(instance))  # fmt: skip

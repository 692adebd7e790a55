"""An optimizer, a model, a loss and a head that the package does not list."""

from dataclasses import dataclass

import numpy as np

from attsvm.training.heads import Head
from attsvm.training.losses import Loss
from attsvm.training.models import Model
from attsvm.training.optimizers import Optimizer, Step


def slow(*, friction: float = 0.5) -> Optimizer:
    """Steps along the gradient's direction that get shorter with each one."""

    def init(params):
        return {"taken": np.int64(0)}

    def move(step: Step):
        taken = int(step.state["taken"])
        factor = 1.0 / (1.0 + friction * taken)
        new = {}
        for name, x in step.params.items():
            G = step.gradient.direction[name]
            flat = np.sqrt(np.square(G.reshape(len(G), -1)).sum(axis=1))
            far = np.where((flat == 0) | (step.gradient.log_scale[name] == -np.inf), np.inf, flat)
            share = (step.lr * factor / far).reshape(-1, *(1,) * (x.ndim - 1))
            new[name] = x - share * G
        return new, {"taken": np.int64(taken + 1)}

    return Optimizer("slow", init, move)


OPTIMIZER = slow()


def _shapes(d, dq, width, e):
    return {"a": (d, dq), "b": (d, dq)}


def _matrix(params):
    return params["a"] + 2.0 * params["b"]


def _chain(params, G):
    return {"a": G, "b": 2.0 * G}


# W = a + 2 b: the same matrix in two blocks.
MODEL = Model("twofold", _shapes, _matrix, _chain)


def _value(x):
    return np.logaddexp(0.0, -2.0 * np.asarray(x))


def _slope(x):
    return np.full(np.shape(x), -1.0), np.log(2.0) - np.logaddexp(0.0, 2.0 * np.asarray(x))


LOSS = Loss("steep", _value, _slope, 0.0)


@dataclass(frozen=True, eq=False)
class Curved(Head):
    """h(o) = v·tanh(o)."""

    v: np.ndarray
    name = "curved"

    def value(self, o):
        return np.tanh(o) @ self.v

    def gradient(self, o):
        return self.v / np.cosh(o) ** 2


HEAD = Curved(np.array([1.0, -0.5, 0.25, 0.5]))

"""Head: the prediction head, which reads a number off the pooled output of attention."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported


class Head(ABC):
    """h(o) and ∇h(o) at pooled outputs o (B, n, d).

    Parameters carry the stack axis B, or 1 for one head shared by the stack. linear: h(o) is v·o
    with v in `vector`. curvature: the c of ∇h(o) − ∇h(x) = c (o − x); 0 for a head that is linear
    near every o, None where no such c exists, and then tokens whose scores tie are distinguished
    to first order only. block: the name under which the parameters are trained, where they are.

    >>> from attsvm.training.heads.linear import Linear
    >>> head = Linear(np.array([[0.2, 0.7]]))
    >>> head.value(np.array([[[1.0, 2.0]]])), head.linear
    (array([[1.6]]), True)
    """

    name: str
    linear: bool = False
    curvature: float | None = None
    block: str = ""

    @property
    def vector(self) -> Floats | None:
        """v (B, d) of a linear head, None for the others."""
        return None

    @classmethod
    def random(cls, rng: np.random.Generator, size: int, d: int) -> Head:
        """A Gaussian head for each of `size` instances, which a listed head is tested on.

        Here for a head with the one parameter v (B, d).
        """
        return cls(rng.standard_normal((size, d)))  # type: ignore[call-arg]

    @abstractmethod
    def value(self, o: Floats) -> Floats:
        """h(o), (B, n)."""

    @abstractmethod
    def gradient(self, o: Floats) -> Floats:
        """∇h(o), (B, n, d)."""

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i ∂h(o_i) in the parameters, in their shape; weights (B, n)."""
        raise Unsupported(f"prediction head {self.name!r} cannot be trained: it has no method pull")

    def units(self, o: Floats) -> Floats:
        """How each trained unit reads o, (B, n, width): `pull` is Σ_i weights_i o_i unitsᵢᵀ."""
        return np.ones((*o.shape[:2], 1))


def check_head(head: Head, d: int, size: int) -> None:
    """Raises Unsupported, with the condition and the input, unless the head meets its contract.

    d: the length of pooled outputs; size: the number of instances. The contract: value (B, n) and
    gradient (B, n, d) are finite; the gradient is the derivative of the value; a number in
    `curvature` is the c of ∇h(o) − ∇h(x) = c (o − x) near every o; a head that says `linear` has
    its vector, and a head with a vector is linear: h(o) is v·o.
    """
    rng = np.random.default_rng(0)
    o, toward = rng.standard_normal((2, size, 3, d))
    said = f"on {size} × 3 random pooled outputs of length {d}"
    try:
        value, gradient = np.asarray(head.value(o)), np.asarray(head.gradient(o))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Unsupported(f"prediction head {head.name!r} fails {said} ({reason})") from error
    h = 1e-6
    rise = (np.asarray(head.value(o + h * toward)) - head.value(o - h * toward)) / (2 * h)
    turn = (np.asarray(head.gradient(o + h * toward)) - head.gradient(o - h * toward)) / (2 * h)
    shaped = value.shape == o.shape[:2] and gradient.shape == o.shape
    contract = {
        "value (B, n) and gradient (B, n, d) are finite": shaped
        and bool(np.isfinite(value).all() and np.isfinite(gradient).all()),
        "gradient is the derivative of value": shaped
        and np.allclose(rise, (gradient * toward).sum(axis=2), rtol=1e-5, atol=1e-6),
        "∇h(o) − ∇h(x) is `curvature` times (o − x), or curvature is None": head.curvature is None
        or np.allclose(turn, head.curvature * toward, rtol=1e-4, atol=1e-4),
        "a linear head has its v in `vector`": not head.linear or head.vector is not None,
        "value is v·o for a head with `vector` v": head.vector is None
        or (shaped and np.allclose(value, (o * head.vector[:, None]).sum(axis=2), 1e-9, 1e-9)),
    }
    for law, kept in contract.items():
        if not kept:
            raise Unsupported(f"prediction head {head.name!r} breaks its contract: {law}; {said}")

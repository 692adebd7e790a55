"""The prediction heads, by name: each reads a number off the pooled output of attention.

A plain vector is the linear head v·o. quadratic: averaging tokens can pay. relu: a network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from attsvm._utils.arrays import LARGEST, Floats
from attsvm._utils.expected import shown
from attsvm.errors import BadTokens, Unsupported


class Head(ABC):
    """h(o) and ∇h(o) at pooled outputs o (B, n, d).

    Parameters carry the stack axis B, or 1 for one head shared by the stack. linear: h(o) is v·o
    with v in `vector`. curvature: the c of ∇h(o) − ∇h(x) = c (o − x); 0 for a head that is linear
    near every o, None where no such c exists, and then tokens whose scores tie are distinguished
    to first order only. block: the name under which the parameters are trained, where they are.

    >>> from attsvm.training.heads import Linear
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


@final
@dataclass(frozen=True, eq=False)
class Linear(Head):
    """The linear head with v (B, d)."""

    v: Floats
    name = "linear"
    linear = True
    curvature = 0.0
    block = "v"

    @property
    def vector(self) -> Floats:
        """v."""
        return self.v

    def value(self, o: Floats) -> Floats:
        """v·o."""
        return np.einsum("bnd,bd->bn", o, np.broadcast_to(self.v, (len(o), o.shape[2])))

    def gradient(self, o: Floats) -> Floats:
        """v, whatever o."""
        return np.broadcast_to(self.v[:, None, :], o.shape)

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i o_i."""
        return np.einsum("bn,bnd->bd", weights, o)


@final
@dataclass(frozen=True, eq=False)
class Quadratic(Head):
    """The quadratic head with v (B, d) and penalty λ ≥ 0.

    Theory: the nonlinear head of the multi-token experiments [tarzanagh2023svm].
    """

    v: Floats
    penalty: float
    name = "quadratic"
    block = "v"

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """−2λ."""
        return -2 * self.penalty

    @classmethod
    def random(cls, rng: np.random.Generator, size: int, d: int) -> Quadratic:
        """A Gaussian v, and the penalty 0.3."""
        return cls(rng.standard_normal((size, d)), 0.3)

    def value(self, o: Floats) -> Floats:
        """v·o − λ‖o‖²."""
        return np.einsum("bnd,bnd->bn", o, self.v[:, None, :] - self.penalty * o)

    def gradient(self, o: Floats) -> Floats:
        """v − 2λ o."""
        return self.v[:, None, :] - 2 * self.penalty * o

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i o_i: the penalty is fixed."""
        return np.einsum("bn,bnd->bd", weights, o)


@final
@dataclass(frozen=True, eq=False)
class Relu(Head):
    """The ReLU head with V (B, d, width).

    Theory: the nonlinear head of the multi-token experiments [tarzanagh2023svm].
    """

    V: Floats
    name = "relu"
    curvature = 0.0
    block = "V"

    @classmethod
    def random(cls, rng: np.random.Generator, size: int, d: int) -> Relu:
        """Six Gaussian units."""
        return cls(rng.standard_normal((size, d, 6)))

    def value(self, o: Floats) -> Floats:
        """Σ_j max(0, V_j·o)."""
        return np.maximum(o @ self.V, 0.0).sum(axis=-1)

    def gradient(self, o: Floats) -> Floats:
        """Σ over active j of V_j."""
        return self._active(o) @ np.swapaxes(self.V, -1, -2)

    def pull(self, o: Floats, weights: Floats) -> Floats:
        """Σ_i weights_i o_i in the columns of the units active at o_i."""
        return np.swapaxes(o * weights[:, :, None], -1, -2) @ self._active(o)

    def units(self, o: Floats) -> Floats:
        """1 for units that are active at o, 0 for the others."""
        return self._active(o)

    def _active(self, o: Floats) -> Floats:
        return (o @ self.V > 0).astype(np.float64)


HEADS: dict[str, type[Head]] = {"linear": Linear, "relu": Relu, "quadratic": Quadratic}

__all__ = ["HEADS", "Head", "Linear", "Quadratic", "Relu", "check_head", "head_of"]


def head_of(head: Any, d: int, *, size: int | None = None) -> Head:
    """The head: a Head as it is, or the linear one of a vector (d,) or a stack of them (B, d).

    A custom Head is checked.

    size: the number of instances B that it is for.
    """
    if isinstance(head, Head):
        if type(head) not in HEADS.values():
            check_head(head, d, 1 if size is None else size)
        return head
    try:
        v = np.asarray(head, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadTokens(
            f"the prediction head is {shown(head)}; it must be a vector ({d},) or a Head"
        ) from error
    if v.ndim not in (1, 2) or v.shape[-1] != d:
        raise BadTokens(f"the prediction head has shape {v.shape}; it must be ({d},)")
    if not (np.abs(v) <= LARGEST).all():
        raise BadTokens("the prediction head has an entry that is not finite, or too large")
    if v.ndim == 2 and size is not None and len(v) not in (1, size):
        raise BadTokens(
            f"the prediction head has shape {v.shape}; {size} instances need ({size}, {d})"
        )
    return Linear(np.atleast_2d(v))

"""Norm: the geometry in which a direction is short, and the check of its contract.

A custom norm is a subclass that says its `name` and has `value`, `dual`, `dual_maximizer` and
`rounding`. Everything else has a default that is on the safe side, or says what is missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.norms.rational import Exact

Floats = NDArray[np.float64]
# Half the distance from 1 to the next float: the unit of rounding.
UNIT = 2.0**-53
# A singular value below this share of the largest does not count for the rank.
RANK = 1e-4
# inner(D, Z, b, free, *, tol, W0, lam0) -> (W, λ): an untrusted pair for unit rows.
Inner = Callable[..., tuple[Floats, Floats]]
# prox(V, t) -> the X (d, dq) that minimises t·f(X) + ½‖X − V‖_F².
Prox = Callable[[Floats, float], Floats]
# Numbers in one stack of unit matrices, at most.
_STACK = 1 << 20


class Norm(ABC):
    """A norm on matrices W (d, dq), its dual, and how much rounding its evaluation carries.

    Every method takes stacks (..., d, dq). What a norm says of itself:

    - `name`: its name in files and tables; `tolerance`: the default certified gap;
    - `unique`: whether the least-norm solution is always unique;
    - `rotational`: whether rotations on both sides keep the norm (then W may be sought in the span
      of the data); `entrywise`: whether permutations and signs of the entries keep it;
    - `euclidean`: whether it is the Frobenius norm; `shape`: the only shape of W it takes, if any.

    What a norm may also have, and what happens without it:

    - `inner(D, Z, b, free, *, tol, W0, lam0)`: a special method on unit rows that returns the best
      (W, λ) it found; without it the general method needs only `dual` and `dual_maximizer`.
    - `prox(V, t)`: the X that minimises t·f(X) + ½‖X − V‖_F² for one V (d, dq), where f is the
      norm, or any growing function of it with slope 1 at norm 1, such as ‖X‖^p/p; without it
      problems of many rows are beyond reach. `prox_reach`: the gap down to which splitting with
      it comes sooner than other methods do.
    - `normal(u)`: the gradient of the norm at u of norm 1; without it no regularization path.
    - `value_above`, `dual_above`: rational bounds; without them no check in exact arithmetic.
    - `ball`, `dual_ball`: how far a small gap confines the solution; without them nothing is said.
    - `rank_bound`: how many singular values a solution can have; without it min(d, dq).

    >>> from attsvm.norms import norm_of
    >>> nuclear = norm_of("nuclear")
    >>> W = np.diag([3.0, 4.0])
    >>> float(nuclear.value(W)), float(nuclear.dual(W)), nuclear.unique
    (7.0, 4.0, False)
    """

    name: str
    tolerance: float = 1e-6
    unique: bool = False
    rotational: bool = False
    entrywise: bool = False
    euclidean: bool = False
    shape: tuple[int, int] | None = None
    inner: Inner | None = None
    prox: Prox | None = None
    prox_reach: float = 1e-3
    normal: Callable[[Floats], Floats] | None = None

    @abstractmethod
    def value(self, W: Any) -> Any:
        """‖W‖."""

    @abstractmethod
    def dual(self, G: Any) -> Any:
        """max ⟨G, W⟩ over ‖W‖ ≤ 1."""

    @abstractmethod
    def dual_maximizer(self, G: Any) -> Floats:
        """A W of norm 1 with ⟨G, W⟩ = dual(G); zero for G = 0."""

    @abstractmethod
    def rounding(self, shape: tuple[int, int]) -> float:
        """A relative bound on the rounding error of value and dual at this shape.

        Too small a bound makes certificates wrong, too large a one only makes gaps wider: 1e-12
        is generous for a few hundred operations, and far below a tolerance of 1e-6.
        """

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """Bounds on value(E) and dual(E) over ‖E‖_F ≤ 1, for matrices of this shape.

        Unless a norm knows better: ‖E‖ ≤ Σ |E_ij| ‖e_ij‖ ≤ ‖E‖_F (Σ ‖e_ij‖²)^½.
        """
        kept: dict[tuple[int, int], tuple[float, float]] = self.__dict__.setdefault("_spreads", {})
        if shape not in kept:
            kept[shape] = _over_entries(self, shape)
        return kept[shape]

    def value_above(self, W: Exact) -> Fraction:
        """A rational that is at least ‖W‖, for an exact matrix."""
        raise Unsupported(_inexact(self, "value_above"))

    def dual_above(self, G: Exact) -> Fraction:
        """A rational that is at least dual(G), for an exact matrix."""
        raise Unsupported(_inexact(self, "dual_above"))

    def ball(self, upper: float, lower: float) -> float:
        """How far in this norm a feasible W of norm `upper` can lie from the optimum.

        Infinite where the norm is not uniformly convex: then nothing follows from a small gap.
        """
        return np.inf

    def dual_ball(self, ratio: float) -> float:
        """How far in the dual norm A*λ (of dual norm 1, lower/upper = ratio) is from the best."""
        return np.inf

    def rank_bound(self, G: Floats, error: float, lower: float, upper: float) -> int:
        """How many singular values of a solution exceed RANK of its largest, at most.

        G = A*λ (d, dq) of dual norm at most 1, up to `error`, proves `lower`; some feasible W has
        norm `upper`.
        """
        return int(min(G.shape))


class DualOf(Norm):
    """The dual of another norm, `of`: value and dual change places, and so do their bounds."""

    of: Norm

    def value(self, W: Any) -> Any:
        """The dual of the other norm."""
        return self.of.dual(W)

    def dual(self, G: Any) -> Any:
        """The value of the other norm."""
        return self.of.value(G)

    def spread(self, shape: tuple[int, int]) -> tuple[float, float]:
        """The other norm's, in the other order."""
        value, dual = self.of.spread(shape)
        return dual, value

    def rounding(self, shape: tuple[int, int]) -> float:
        """The other norm's."""
        return self.of.rounding(shape)

    def value_above(self, W: Exact) -> Fraction:
        """A rational at least the dual of the other norm."""
        return self.of.dual_above(W)

    def dual_above(self, G: Exact) -> Fraction:
        """A rational at least the value of the other norm."""
        return self.of.value_above(G)


def _inexact(norm: Norm, method: str) -> str:
    return (
        f"norm {norm.name} has no {method}: it cannot be checked in exact arithmetic; verify() "
        "without exact=True recomputes both bounds in floats, rounding included"
    )


def _over_entries(norm: Norm, shape: tuple[int, int]) -> tuple[float, float]:
    """(Σ ‖e_ij‖²)^½ of the norm and of its dual, rounded up."""
    size = shape[0] * shape[1]
    step = max(1, _STACK // size)
    squares = np.zeros(2)
    for start in range(0, size, step):
        place = np.arange(start, min(start + step, size))
        flat = np.zeros((len(place), size))
        flat[np.arange(len(place)), place] = 1.0
        E = flat.reshape(-1, *shape)
        squares += [np.square(norm.value(E)).sum(), np.square(norm.dual(E)).sum()]
    up = (1 + norm.rounding(shape)) * (1 + (size + 4) * UNIT)
    value, dual = np.sqrt(squares) * up
    return float(value), float(dual)


def largest(W: Any) -> Any:
    """max |W_ij| of each matrix in a stack."""
    return np.abs(W).max(axis=(-2, -1), initial=0.0)


# What `check_norm` tries: matrices of these shapes, so many of each, from these seeds.
_SHAPES = ((1, 1), (4, 1), (1, 3), (3, 2), (3, 5))
_DRAWS = 8
_SEEDS = (1, 2)
# A condition missed by more than this share is violated; missed by less, rounding is too small.
_MISSED = 1e-7
# Factors that are no powers of two, so that a scaled matrix is rounded anew.
_FACTORS = (-3.7, 1 / 7, 1e3)


def check_inputs(shape: tuple[int, int], seed: int) -> Floats:
    """The matrices (8, d, dq) on which `check_norm` tries the contract.

    Dense and sparse ones, of rank one, of entries that differ in size, and of entries ±1.

    >>> check_inputs((3, 2), seed=1).shape
    (8, 3, 2)
    """
    draw = np.random.default_rng([seed, *shape])
    W = draw.standard_normal((_DRAWS, *shape))
    W[1::4] *= draw.random((len(W[1::4]), *shape)) < 0.6
    W[2::4] = W[2::4, :, :1] * W[2::4, :1, :]
    W[3::4] *= 10.0 ** draw.integers(-4, 5, (len(W[3::4]), *shape))
    W[..., 0, 0] += W[..., 0, 0] == 0  # none is zero
    W[-1] = np.sign(W[-1])  # and one has many largest entries
    return W


def check_norm(norm: Norm) -> None:
    """Raises Unsupported unless the norm keeps its contract on a handful of fixed random matrices.

    The message names the condition, the input and the two numbers. Passing proves nothing, but a
    mistake in a formula is rarely small.
    """
    if not isinstance(getattr(norm, "name", None), str) or not norm.name:
        raise Unsupported(f"{type(norm).__name__} needs a name: a class attribute name = '…'")
    shapes = _SHAPES if norm.shape is None else (norm.shape,)
    for shape in shapes:
        for seed in _SEEDS:
            try:
                _Contract(
                    norm, check_inputs(shape, seed), check_inputs(shape, seed + 10), seed
                ).check()
            except Unsupported:
                raise
            except Exception as error:
                raise Unsupported(
                    f"norm {norm.name} fails on matrices of shape {shape}, "
                    f"check_inputs({shape}, {seed}): {type(error).__name__}: {error}; a norm that "
                    "takes one shape only says so in `shape`"
                ) from error


class _Contract:
    """The conditions on a norm, tried on two stacks W and V (8, d, dq)."""

    def __init__(self, norm: Norm, W: Floats, V: Floats, seed: int) -> None:
        self.norm, self.W, self.V, self.seed = norm, W, V, seed
        self.d, self.dq = W.shape[1:]
        self.rounding = float(norm.rounding((self.d, self.dq)))

    def check(self) -> None:
        """Each condition in turn."""
        if not 0 < self.rounding < 0.01:
            self._break("rounding is a small positive share", self.rounding, 0.01)
        for name, size in (("value", self.norm.value), ("dual", self.norm.dual)):
            self._sizes(name, size)
        self._duality()
        self._spread()
        self._claims()

    def _sizes(self, name: str, size: Callable[[Any], Any]) -> None:
        """Each of value and dual is a norm, as exact as `rounding` says, on stacks as on one."""
        W, V, at = self.W, self.V, np.asarray(size(self.W), dtype=np.float64)
        if at.shape != W.shape[:1] or np.ndim(size(W[0])):
            raise Unsupported(
                f"norm {self.norm.name}: {name} of a stack of shape {W.shape} has shape "
                f"{at.shape}; it must be one number per matrix, {W.shape[:1]}"
            )
        self._most(f"{name}(0) is 0", abs(float(size(0.0 * W[0]))), 0.0)
        for k in range(len(W)):
            if not 0 < at[k] < np.inf:
                self._break(f"{name}(W) is positive and finite for W ≠ 0", at[k], 0.0, k)
        self._same(f"{name} of a stack is that of its matrices", [size(w) for w in W], at)
        for factor in _FACTORS:
            self._same(f"{name}(tW) = |t| {name}(W)", size(factor * W), abs(factor) * at)
        side = at + np.asarray(size(V))
        self._most(f"{name}(W + V) ≤ {name}(W) + {name}(V)", size(W + V), side)

    def _duality(self) -> None:
        """⟨G, W⟩ ≤ dual(G) value(W), with equality at dual_maximizer(G), which has norm 1."""
        norm, W, G = self.norm, self.W, self.V
        dual = np.asarray(norm.dual(G))
        self._most("⟨G, W⟩ ≤ dual(G) value(W)", _product(G, W), dual * norm.value(W))
        S = np.asarray(norm.dual_maximizer(G), dtype=np.float64)
        if S.shape != G.shape:
            raise Unsupported(
                f"norm {norm.name}: dual_maximizer of a stack of shape {G.shape} has "
                f"shape {S.shape}"
            )
        self._near("value(dual_maximizer(G)) = 1", norm.value(S), np.ones(len(S)))
        self._near("⟨G, dual_maximizer(G)⟩ = dual(G)", _product(G, S), dual)
        self._most(
            "dual_maximizer(0) is 0", largest(norm.dual_maximizer(0.0 * G)), np.zeros(len(G))
        )

    def _spread(self) -> None:
        """`spread` bounds value and dual by the Frobenius norm; met at single entries and signs."""
        E = np.concatenate([self.W, np.sign(self.W), self.W * (np.abs(self.W) == _tops(self.W))])
        length = np.sqrt(_product(E, E))
        bounds = self.norm.spread((self.d, self.dq))
        sizes = (self.norm.value, self.norm.dual)
        for name, size, bound in zip(("value", "dual"), sizes, bounds, strict=True):
            self._most(f"{name}(E) ≤ spread ‖E‖_F", size(E), bound * length)

    def _claims(self) -> None:
        """What the norm says of itself: rotational, euclidean, and its normal."""
        norm, W = self.norm, self.W
        at = np.asarray(norm.value(W))
        if norm.euclidean:
            self._same("value(W) = ‖W‖_F, as euclidean says", at, np.sqrt(_product(W, W)))
        if norm.entrywise:
            moved = -W[:, ::-1, ::-1]
            self._same("value(W) with moved entries, as entrywise says", norm.value(moved), at)
        if norm.rotational:
            draw = np.random.default_rng(self.seed)
            left, right = (np.linalg.qr(draw.standard_normal((n, n)))[0] for n in W.shape[1:])
            self._near(
                "value(PWQ) = value(W), as rotational says", norm.value(left @ W @ right), at
            )
        if norm.prox is not None:
            for k, V in enumerate(W):
                self._prox(k, V, norm.prox(V, 0.1 * float(norm.value(V))))
        if norm.normal is not None:
            for k, u in enumerate(W / at[:, None, None]):
                slope = np.asarray(norm.normal(u))
                found = np.array([norm.dual(slope), np.vdot(slope, u)])
                if np.abs(found - 1).max() > _MISSED:
                    self._break("dual(normal(u)) = 1 = ⟨normal(u), u⟩", found[0], found[1], k)

    def _prox(self, k: int, V: Floats, X: Any) -> None:
        """What prox takes away is aligned with what it leaves."""
        if np.shape(X) != V.shape:
            raise Unsupported(
                f"norm {self.norm.name}: prox of a matrix of shape {V.shape} has shape "
                f"{np.shape(X)}"
            )
        found, wanted = np.vdot(V - X, X), self.norm.dual(V - X) * self.norm.value(X)
        if not (V - X).any() or abs(found - wanted) > _MISSED * np.vdot(V, V):
            self._break("⟨V − X, X⟩ = dual(V − X) value(X) at X = prox(V, t)", found, wanted, k)

    def _same(self, condition: str, found: Any, wanted: Any) -> None:
        """The two agree but for the rounding of both."""
        self._near(condition, found, wanted)
        found, wanted = np.asarray(found), np.asarray(wanted)
        off = np.abs(found - wanted) / wanted
        k = int(off.argmax())
        allowed = 2 * self.rounding + 4 * UNIT
        if off[k] > allowed:
            self._break(f"rounding covers what is seen of {condition}", off[k], allowed, k)

    def _near(self, condition: str, found: Any, wanted: Any) -> None:
        found, wanted = np.asarray(found), np.asarray(wanted)
        off = ~(np.abs(found - wanted) <= _MISSED * np.abs(wanted))
        if off.any():
            k = int(off.argmax())
            self._break(condition, found[k], wanted[k], k)

    def _most(self, condition: str, found: Any, bound: Any) -> None:
        found, bound = np.atleast_1d(found), np.atleast_1d(bound)
        off = ~(found <= bound * (1 + 2 * self.rounding + 64 * UNIT))
        if off.any():
            k = int(off.argmax())
            self._break(condition, found[k], bound[k], k)

    def _break(self, condition: str, found: Any, wanted: Any, k: int = 0) -> None:
        raise Unsupported(
            f"norm {self.norm.name} violates '{condition}': {float(found):.9g} against "
            f"{float(wanted):.9g}, on matrix {k % _DRAWS} of shape ({self.d}, {self.dq}), seed "
            f"{self.seed} (attsvm.norms.norm.check_inputs)"
        )


def _product(G: Floats, W: Floats) -> Floats:
    """⟨G, W⟩ of each pair in two stacks."""
    return np.asarray(np.einsum("bij,bij->b", G, W))


def _tops(W: Floats) -> Floats:
    return np.asarray(largest(W))[:, None, None]

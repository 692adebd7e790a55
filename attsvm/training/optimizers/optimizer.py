"""Optimizer: how a gradient becomes a step. A pair of pure functions on stacks of arrays.

A gradient comes in scaled form, direction × e^log_scale, because its size leaves the range of
floats while its direction does not. Each parameter (W; p; K and Q; v) is a block with its own
direction and scale, and an optimizer that normalizes does so block by block, without an additive
eps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.objects import keep_declared
from attsvm.errors import Unsupported
from attsvm.training.optimizers.graded import Graded

# Parameters by name, each with a leading stack axis B.
Blocks = dict[str, Floats]
# What an optimizer remembers, by name: arrays and numbers.
State = dict[str, Any]
# The entry of a state that has the first step whose gradient was no float (B,), −1 for none.
BELOW = "below"
# (log of the step size (B,), log of the gradient's norm (B,)) -> log of the time passed (B,).
Clock = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of each block as direction (B, ...) and log_scale (B,).

    Block x is direction[x] · e^log_scale[x]; a log_scale of −inf means exactly zero. graded[x] is
    the same block as a sum of terms of any size, for optimizers that ask for it where it is known.
    """

    direction: Blocks
    log_scale: Blocks
    graded: dict[str, Graded] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Step:
    """What an optimizer knows when it moves.

    lr (B,) is the step size of this step, loss (B,) the loss (above its infimum for an optimizer
    that says `needs_infimum`), count the number of steps before this one.
    """

    params: Blocks
    gradient: Gradient
    state: State
    lr: Floats
    loss: Floats
    count: int


@dataclass(frozen=True)
class Optimizer:
    """init(params) gives the first state, move(step) the next params and state.

    Neither changes its arguments. A state is a flat dict of arrays, so that it can be saved. A
    step beyond the range of floats gives params that are not finite.

    What else is true of an optimizer it says itself; no other code asks for its name.

    norm: the name of the norm in which every step has length lr (ngd: frobenius), None otherwise.
    decays: whether decoupled weight decay is defined. graded: it asks for gradients in graded form.
    An optimizer that gives small entries or singular directions the weight of large ones is exact
    only with it, and must do without where a model has none. needs_infimum: `Step.loss` is the loss
    above its infimum. clock(log lr, log ‖g‖): the log of the time by which plain gradient flow
    moves on in one step; None for an optimizer that does not follow it. fused: which steps the
    fused kernels take for it, None for none. dual: (P, plain) of an optimizer that steps in the
    dual variable of ‖x‖_P^P/P, by lr times the gradient where plain, else by dual length lr; None
    for others. ridge: λ of a optimizer that descends on the loss and λ ‖x‖² for every block x, 0
    for others. limit: the optimizer of the table of limits that it stands for, None where nothing
    is known. lr: its own step size, where none is given. floats: it reads gradients as floats, so
    that one below their range is zero to it; its state has `BELOW`, and zero gradients may move
    something (weight decay).

    norm, clock, fused, dual and ridge speak of init and move: `dataclasses.replace` with another
    init or move drops those that are not given anew. about: what they were declared for.

    >>> from attsvm.training.optimizers import optimizer_of
    >>> optimizer = optimizer_of("spectral")
    >>> optimizer.name, optimizer.norm, optimizer.limit
    ('spectral', 'spectral', 'spectral')
    """

    name: str
    init: Callable[[Blocks], State]
    move: Callable[[Step], tuple[Blocks, State]]
    norm: str | None = None
    decays: bool = True
    graded: bool = False
    needs_infimum: bool = False
    clock: Clock | None = None
    fused: Literal["gd", "ngd"] | None = None
    dual: tuple[float, bool] | None = None
    limit: str | None = None
    ridge: float = 0.0
    lr: float | None = None
    floats: bool = False
    about: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        names = ("norm", "clock", "fused", "dual", "ridge")
        keep_declared(self, (self.init, self.move), names)

    def update(
        self, params: Blocks, gradient: Gradient, state: State, lr: Floats, loss: Floats, step: int
    ) -> tuple[Blocks, State]:
        """The params and state after this step."""
        return self.move(Step(params, gradient, state, lr, loss, step))


# The blocks that an optimizer from outside is tried on: a matrix and a vector, two instances of
# each.
_BLOCKS = {"W": (4, 3), "v": (5,)}
_LR = 0.1
_TRIED = "two instances of blocks W (4, 3) and v (5,), gradients of size e^{0:g}"


def check_optimizer(optimizer: Optimizer) -> None:
    """Raises Unsupported, with the condition and the input, unless the contract is met.

    The contract: init and move leave their arguments alone; a state is a flat dict of arrays of the
    same names and shapes after each step; a step has the shapes of the parameters, is finite for
    gradients of size 1, and never NaN, not for those of size e^−900 either; a zero gradient moves
    nothing; instances of a stack do not mix; a step goes on from a saved state as from the state
    itself; an optimizer that says `fused` takes the steps of the fused kernels.
    """
    for scale in (0.0, -900.0):
        _Trial(optimizer, _TRIED.format(scale)).run(scale)


@dataclass(frozen=True)
class _Trial:
    """An optimizer tried on one input, which messages name."""

    optimizer: Optimizer
    input_: str

    def run(self, scale: float) -> None:
        """The contract on gradients of size e^scale."""
        optimizer = self.optimizer
        params, gradient = _sample(scale)
        state = self.call(lambda: optimizer.init(params), "init", params)
        self.check_state(state)
        moved, after = self.move(params, gradient, state)
        same = _shapes(after) == _shapes(state)
        self.require(same, "move keeps the names and shapes of the state")
        self.check_state(after)
        finite = all(np.isfinite(a).all() for a in moved.values())
        self.require(finite or scale < 0, "a step is finite")
        if optimizer.fused is not None and not optimizer.ridge and finite:
            law = f"an optimizer that says fused={optimizer.fused!r} takes its steps"
            self.require(_near(moved, _plain(params, gradient, optimizer.fused)), law)
        if not finite:  # as long as one over the gradient's size, which some optimizers mean
            return
        saved = {name: np.array(value) for name, value in after.items()}
        on, _ = self.move(moved, gradient, after)
        again, _ = self.move(moved, gradient, saved)
        self.require(_near(on, again), "a step goes on from a saved state as before")
        still = Gradient(
            {x: np.zeros_like(G) for x, G in gradient.direction.items()},
            {x: np.full(2, -np.inf) for x in params},
        )
        zero = replace(self, input_=f"{self.input_}, all zero")
        stood, _ = zero.move(params, still, state)
        self.require(_near(stood, params), "a zero gradient moves nothing")
        first = {x: a[:1] for x, a in params.items()}
        alone = Gradient(
            {x: G[:1] for x, G in gradient.direction.items()},
            {x: s[:1] for x, s in gradient.log_scale.items()},
        )
        single = replace(self, input_=f"{self.input_}, one instance alone")
        one, _ = single.move(first, alone, optimizer.init(first))
        unmixed = _near(one, {x: a[:1] for x, a in moved.items()})
        self.require(unmixed, "instances of a stack do not mix")

    def move(self, params: Blocks, gradient: Gradient, state: State) -> tuple[Blocks, State]:
        """The step, with shapes, numbers and its effect on its arguments checked."""
        B = len(params["W"])
        step = Step(params, gradient, state, np.full(B, _LR), np.full(B, 0.5), 0)
        with np.errstate(all="ignore"):
            found = self.call(lambda: self.optimizer.move(step), "move", params, gradient, state)
        pair = isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], dict)
        self.require(pair, "move gives a pair, the new parameters and the new state")
        shaped = _shapes(found[0]) == _shapes(params)
        self.require(shaped, "move gives every block in its own shape")
        self.require(not any(np.isnan(a).any() for a in found[0].values()), "no step is NaN")
        return found[0], found[1]

    def call(self, function: Callable[[], Any], what: str, *given: Any) -> Any:
        """What it returns; raises Unsupported when it fails, or changes what it is given."""
        before = copy.deepcopy(given)
        try:
            found = function()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise Unsupported(
                f"optimizer {self.optimizer.name!r} fails in {what} ({said}) on {self.input_}"
            ) from error
        same = all(_same(one, other) for one, other in zip(before, given, strict=True))
        self.require(same, f"{what} leaves its arguments alone")
        return found

    def check_state(self, state: Any) -> None:
        """Raises Unsupported unless a state can be saved."""
        flat = isinstance(state, dict) and all(
            isinstance(name, str) and np.asarray(value).dtype.kind in "biuf"
            for name, value in state.items()
        )
        self.require(flat, "a state is a flat dict of arrays of numbers")

    def require(self, kept: bool, law: str) -> None:
        """Raises Unsupported, with the law, unless it is kept."""
        if not kept:
            raise Unsupported(
                f"optimizer {self.optimizer.name!r} breaks its contract: {law}; on {self.input_}"
            )


def _sample(scale: float) -> tuple[Blocks, Gradient]:
    rng = np.random.default_rng(0)
    params = {x: rng.standard_normal((2, *shape)) for x, shape in _BLOCKS.items()}
    direction = {x: rng.standard_normal((2, *shape)) for x, shape in _BLOCKS.items()}
    return params, Gradient(direction, {x: scale + rng.uniform(-1, 1, 2) for x in _BLOCKS})


def _plain(params: Blocks, gradient: Gradient, fused: str) -> Blocks:
    """The step of plain or normalized descent that `_Trial.move` asks for."""
    out: Blocks = {}
    for name, x in params.items():
        for b, G in enumerate(gradient.direction[name]):
            size = np.exp(gradient.log_scale[name][b]) if fused == "gd" else 1 / np.linalg.norm(G)
            out.setdefault(name, x.copy())[b] -= _LR * size * G
    return out


def _shapes(arrays: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(value) for name, value in arrays.items()}


def _near(one: Blocks, other: Blocks) -> bool:
    return all(np.allclose(one[x], other[x], rtol=1e-12, atol=1e-12) for x in one)


def _same(one: Any, other: Any) -> bool:
    """Whether two states, sets of parameters or gradients are equal in every digit."""
    if isinstance(one, Gradient):
        return _same(one.direction, other.direction) and _same(one.log_scale, other.log_scale)
    return one.keys() == other.keys() and all(
        np.array_equal(value, other[name]) for name, value in one.items()
    )

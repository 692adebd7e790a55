"""Task, Training, Answer, Contestant, Entry and Work: what the bench is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from attsvm._utils.arrays import Floats, Ints

# Inputs n, tokens T, features d.
Size = tuple[int, int, int]

# What the published loops add to a norm before they divide by it.
EPS = 2.0**-52


@dataclass(frozen=True, eq=False)
class Training:
    """Normalized descent on the logistic loss: heads v (B, d), labels y (B, n), start (B, d, dq),
    step size lr, number of steps."""

    v: Floats
    y: Floats
    start: Floats
    lr: float
    steps: int

    def first(self, count: int) -> Training:
        """That of the first `count` instances."""
        return replace(self, v=self.v[:count], y=self.y[:count], start=self.start[:count])


@dataclass(frozen=True, eq=False)
class Task:
    """What every contestant is given: plain arrays, a norm, and the gap that is enough.

    X (B, n, T, d) tokens, z (B, n, dq) queries or None for the prompt form, alpha (B, n) the
    selected tokens; B > 1 is a stack of problems to be solved one and all. With a head v (d,) the
    task is instead to find every locally optimal selection of the one problem, and alpha is empty;
    with `training` it is to train each instance, and alpha is empty as well.
    """

    X: Floats
    z: Floats | None
    alpha: Ints
    norm: str
    tol: float | None = None
    v: Floats | None = None
    training: Training | None = None

    @property
    def parts(self) -> int:
        """What CPU seconds are divided by: problems, or instances times steps of training."""
        return self.stack * (1 if self.training is None else self.training.steps)

    @property
    def stack(self) -> int:
        """The number of problems B."""
        return len(self.X)

    def first(self, count: int) -> Task:
        """The task of the first `count` problems of the stack."""
        z = None if self.z is None else self.z[:count]
        training = None if self.training is None else self.training.first(count)
        return replace(self, X=self.X[:count], z=z, alpha=self.alpha[:count], training=training)

    def rows(self, k: int) -> tuple[Floats, Floats]:
        """Δ (m, d) and z (m, dq) of every margin of problem k, input by input, token by token."""
        X, alpha = self.X[k], self.alpha[k]
        n, T, _ = X.shape
        place = np.arange(n)
        others = np.ones((n, T), dtype=bool)
        others[place, alpha] = False
        D = (X[place, alpha][:, None, :] - X)[others]
        z = np.ones((n, 1)) if self.z is None else self.z[k]
        return D, np.repeat(z, T - 1, axis=0)

    def features(self, k: int) -> Floats:
        """The rows Δ z^T of problem k as vectors (m, d·dq): what a general solver is fed."""
        D, Z = self.rows(k)
        return (D[:, :, None] * Z[:, None, :]).reshape(len(D), -1)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a contestant hands back for one problem; nothing in it is believed.

    W (d, dq) or None when it found none; multipliers (m,) or None when it gives none; alpha (n,)
    the selection it is about, when that is part of the answer; solver: the engine that was used.
    """

    W: Floats | None
    multipliers: Floats | None
    alpha: Ints | None = None
    solver: str = ""


@dataclass(frozen=True)
class Contestant:
    """A way to solve a task: what it is, the packages it needs, answer(task) -> answers.

    optional: without its packages it is left out with a note; the others are required.
    """

    about: str
    answer: Callable[[Task], list[Answer]]
    needs: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class Entry:
    """One contestant in one work.

    seeds, quick_seeds: on how many seeds it runs (0: it stays out); first: how many problems of
    a stack it is given (None: all); reach: how many times our CPU time it should need.
    """

    seeds: int = 5
    quick_seeds: int = 1
    first: int | None = None
    reach: float | None = None


class Draw(Protocol):
    """draw(seed, size, stack=B) -> the arrays of a Task, from one seed."""

    def __call__(self, seed: int, size: Size, *, stack: int) -> Mapping[str, Any]:
        """The keyword arguments X, z, alpha (and v, training) of a Task."""
        ...


@dataclass(frozen=True)
class Work:
    """Instances of one size in one norm, who runs on them, and what is to be reached.

    tiny: the size of the warm-up, which takes the same path through the solver; quick_size: the
    size of a quick run where the full one is too long for it; stack: problems in a task; cpu (s),
    memory (GB), gap: the most that ours may need, None for no such aim.
    """

    about: str
    draw: Draw
    size: Size
    tiny: Size
    entries: Mapping[str, Entry]
    norm: str = "frobenius"
    quick_size: Size | None = None
    stack: int = 1
    tol: float | None = None
    cpu: float | None = None
    memory: float | None = None
    gap: float | None = None

    def size_of(self, *, quick: bool) -> Size:
        """The size of a full or a quick run."""
        return self.quick_size if quick and self.quick_size is not None else self.size

    def task(self, seed: int, *, quick: bool = False) -> Task:
        """The task of a seed."""
        arrays = self.draw(seed, self.size_of(quick=quick), stack=self.stack)
        return Task(**arrays, norm=self.norm, tol=self.tol)

    def tiny_task(self, seed: int) -> Task:
        """The task of a seed in the warm-up size: at most three problems, or 50 steps of them."""
        arrays = self.draw(seed, self.tiny, stack=min(self.stack, 3))
        task = Task(**arrays, norm=self.norm, tol=self.tol)
        if task.training is None:
            return task
        steps = min(task.training.steps, 50)
        return replace(task, training=replace(task.training, steps=steps))

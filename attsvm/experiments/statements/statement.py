"""Statement: a claim about instances in the form that can be hunted, and what an instance is.

A statement has premises(instance), which say whether it speaks of the instance at all, and
violation(instance), a number that is positive where it is broken. Numbers are floats and may be
wrong by rounding; `confirm` is the check that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import isfinite, prod
from typing import Any, Literal

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.problem.tokens import Tokens

# theorem: proved; false: known not to hold; planted: made to be found; conjecture: open.
Kind = Literal["theorem", "false", "planted", "conjecture"]


class NoProof(Exception):
    """Raised by an exact check that cannot tell; the message says why."""


@dataclass(frozen=True, eq=False, repr=False)
class Instance:
    """Arrays by name, as a problem file has them: X (n, T, d), v, z, y, p0, W0, and others."""

    arrays: Mapping[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        return self.arrays[name]

    @cached_property
    def tokens(self) -> Tokens:
        """X with the queries z (width one without them) and the labels y (1 without them)."""
        return Tokens(self["X"], queries=self.arrays.get("z"), labels=self.labels)

    @cached_property
    def labels(self) -> Floats:
        """y (n,), 1 where the instance has none."""
        return self.arrays.get("y", np.ones(len(self["X"])))

    @cached_property
    def scores(self) -> Floats:
        """γ_it = y_i v·x_it (n, T)."""
        return np.asarray(self.labels[:, None] * (self["X"] @ self["v"]))

    @cached_property
    def best(self) -> tuple[int, ...]:
        """The token of highest score of every input."""
        return tuple(self.scores.argmax(axis=1).tolist())

    @cached_property
    def first(self) -> tuple[int, ...]:
        """The first token of every input."""
        return (0,) * len(self["X"])

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={a.tolist()}" for name, a in self.arrays.items())
        return f"Instance({said})"


@dataclass(frozen=True)
class Field:
    """One array of an instance: its name, its axes (letters of Space.sizes, or whole numbers).

    scale: what drawn entries are multiplied by. values: the entries to draw from, simplest first,
    where they are not those of a level.
    """

    name: str
    axes: tuple[str | int, ...]
    scale: float = 1.0
    values: tuple[float, ...] | None = None

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape at these sizes."""
        return tuple(sizes[a] if isinstance(a, str) else a for a in self.axes)

    def entries(self, level: tuple[float, ...]) -> tuple[float, ...]:
        """What an entry is drawn from at this level, simplest first."""
        return self.values or tuple(self.scale * x for x in level)


# The fields that most statements draw: tokens, queries, prediction head, labels, a start.
X = Field("X", ("n", "T", "d"))
Z = Field("z", ("n", "d"))
V = Field("v", ("d",))
Y = Field("y", ("n",), values=(1.0, -1.0))
P0 = Field("p0", ("d",), scale=2.0)


def _anywhere(sizes: Mapping[str, int]) -> bool:
    return True


@dataclass(frozen=True)
class Space:
    """What an instance is: ranges of sizes, the arrays, which sizes fit together, what is made.

    make: turns the drawn arrays into those of the instance, where they are not the same.
    """

    sizes: Mapping[str, tuple[int, int]]
    fields: tuple[Field, ...]
    fits: Callable[[Mapping[str, int]], bool] = _anywhere
    make: Callable[[dict[str, Floats]], dict[str, Floats]] | None = None

    @cached_property
    def choices(self) -> tuple[dict[str, int], ...]:
        """Every choice of sizes that fits, the one with the fewest entries first."""
        ranges = [range(low, high + 1) for low, high in self.sizes.values()]
        found = [dict(zip(self.sizes, chosen, strict=True)) for chosen in product(*ranges)]
        fitting = [sizes for sizes in found if self.fits(sizes)]
        return tuple(sorted(fitting, key=lambda s: (self._entries(s), *s.values())))

    def _entries(self, sizes: Mapping[str, int]) -> int:
        return sum(prod(f.shape(sizes)) for f in self.fields)

    def count(self, sizes: Mapping[str, int], level: tuple[float, ...]) -> int:
        """How many instances of these sizes have all entries at this level."""
        return prod(len(f.entries(level)) ** prod(f.shape(sizes)) for f in self.fields)

    def sizes_of(self, drawn: Mapping[str, Floats]) -> dict[str, int]:
        """The sizes of drawn arrays."""
        out: dict[str, int] = {}
        for f in self.fields:
            pairs = zip(f.axes, drawn[f.name].shape, strict=True)
            out |= {axis: size for axis, size in pairs if isinstance(axis, str)}
        return {letter: out[letter] for letter in self.sizes}

    def instance(self, drawn: Mapping[str, Floats]) -> Instance:
        """The instance of drawn arrays."""
        arrays = dict(drawn)
        return Instance(arrays if self.make is None else self.make(arrays))


@dataclass(frozen=True)
class Confirmation:
    """What an exact check says of an instance: whether the statement is broken there, proved.

    says: one sentence with the numbers. proved is False both where the check says the statement
    holds and where it cannot tell.
    """

    proved: bool
    says: str


@dataclass(frozen=True)
class Statement:
    """A claim about instances that can be hunted.

    says: the statement in a sentence. premises, violation: see above; a violation above `tolerance`
    is a candidate. confirm: the exact check of a candidate, None where there is none; proves: what
    it rests on. claims: ids of the claims of `attsvm list` that state it. block: instances drawn at
    once, fewer where one takes long.

    >>> import attsvm.experiments.statements.statement as s
    >>> small = s.Space({"d": (1, 2)}, (s.Field("x", ("d",)),))
    >>> squares = s.Statement(
    ...     "squares",
    ...     says="x² ≥ x for every x ≥ 0.",
    ...     kind="planted",
    ...     space=small,
    ...     premises=lambda one: bool((one["x"] >= 0).all()),
    ...     violation=lambda one: float((one["x"] - one["x"] ** 2).max()),
    ... )
    >>> squares.violation(small.instance({"x": np.array([0.5])}))
    0.25
    """

    name: str
    says: str
    kind: Kind
    space: Space
    premises: Callable[[Instance], bool] | None = None
    violation: Callable[[Instance], float] | None = None
    confirm: Callable[[Instance], Confirmation] | None = None
    claims: tuple[str, ...] = ()
    proves: str = "an exact check"
    block: int = 200
    tolerance: float = 1e-7

    def holds_premises(self, instance: Instance) -> bool:
        """Whether the statement speaks of this instance."""
        return bool(self._called("premises", instance))

    def broken_by(self, instance: Instance) -> float:
        """The violation: positive where the statement is broken. Raises Unsupported for nan."""
        value = self._called("violation", instance)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not isfinite(number):
            raise Unsupported(
                f"the violation of statement {self.name!r} is {value!r} on {instance!r}: it must "
                "be a finite number wherever the premises hold"
            )
        return number

    def checked(self, instance: Instance) -> Confirmation:
        """The exact check of an instance."""
        if self.confirm is None:
            return Confirmation(False, "the statement has no exact check")
        try:
            said: Confirmation = self._called("confirm", instance)
        except NoProof as error:
            return Confirmation(False, str(error))
        return said

    def _called(self, part: str, instance: Instance) -> Any:
        function = getattr(self, part)
        try:
            return function(instance)
        except Exception as error:  # whatever the function of a user raises
            if part == "confirm" and isinstance(error, NoProof):
                raise
            raise Unsupported(
                f"{part} of statement {self.name!r} fails on {instance!r}: "
                f"{type(error).__name__}: {error}"
            ) from error


def check_statement(found: object, name: str) -> Statement:
    """The statement itself. Raises Unsupported unless it can be hunted."""
    if not isinstance(found, Statement):
        raise Unsupported(
            f"{name} is no attsvm.experiments.statements.statement.Statement "
            f"but {type(found).__name__}"
        )
    for part in ("premises", "violation"):
        if not callable(getattr(found, part)):
            hint = ": give lambda instance: True where it has none" if part == "premises" else ""
            raise Unsupported(f"statement {found.name!r} has no {part}{hint}")
    if not found.space.choices:
        raise Unsupported(f"no sizes of statement {found.name!r} fit together: widen its space")
    return found


def simplest(values: set[float]) -> tuple[float, ...]:
    """These numbers, simplest first: small denominators, then small, then positive.

    >>> simplest({-1.0, 0.5, 2.0, 0.0, 1.0})
    (0.0, 1.0, -1.0, 2.0, 0.5)
    """
    return tuple(sorted(values, key=lambda x: (Fraction(x).denominator, abs(x), x < 0)))


def within(most: float, part: int = 1) -> tuple[float, ...]:
    """Multiples of 1/part between −most and most, simplest first."""
    steps = round(most * part)
    return simplest({k / part for k in range(-steps, steps + 1)})


# What entries are drawn from, in turn: whole numbers first, then simple fractions.
LEVELS: dict[str, tuple[float, ...]] = {
    "−1..1": within(1),
    "−2..2": within(2),
    "−3..3": within(3),
    "halves in −2..2": within(2, 2),
    "quarters in −3..3": within(3, 4),
}
# Everything that is drawn, in steps that shrinking can go down.
FINEST = within(4, 8)

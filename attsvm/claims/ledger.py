"""The ledger: what a claim's work leaves behind, so that it can be checked without the work.

A claim trains and solves through the functions of this module. Alone they are those of the library.
While a ledger is open they write in it, or read from it:

recording   the record one step before the end of every run is kept beside the result
replaying   nothing is run again: a run ends with one step of its rule from the kept record, and a
            solution is the one on file, certified again. What is not known this way is nan in
            floats and UNKNOWN in whole numbers. Chosen pieces of work are done again in full.

The result of a replay is the one on file wherever it is known, or the file is not of this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from attsvm.certificate import Certificate, certify
from attsvm.claims.claim import Result
from attsvm.errors import AttsvmError
from attsvm.heads import Head
from attsvm.norms import Norm
from attsvm.path import Path
from attsvm.problem import Problem
from attsvm.runs.record import grid
from attsvm.sentences import Sentences
from attsvm.solvers import front, many
from attsvm.tokens import Bools, Floats, Ints, Tokens
from attsvm.training import train as train_in_full

# Names of the ledger's own arrays in a result begin with this.
LEDGER = "ledger."
# A whole number that a replay does not know.
UNKNOWN = np.iinfo(np.int64).min
# How far a replay may be from the file on another processor, as a share of the largest entry of a
# matrix: one step, or a number recomputed from kept ones; a whole run; the end of a search.
NEAR, RUN, SEARCH = 1e-9, 1e-6, 1e-3
_SOLVED = f"{LEDGER}solved"
# What a run that goes on is given again.
_AGAIN = ("head", "schedule", "embedding")
_SETTLED = ("optimal", "inseparable")

_T = TypeVar("_T")

# A piece of work that can be done again by itself: ("run", call, instance) or ("solve", call, 0).
Piece = tuple[str, int, int]


class Doubt(AttsvmError):
    """What is on file cannot have come from the run that the config asks for."""


@dataclass(eq=False)
class Ledger:
    """What was written or read so far.

    saved: the arrays on file in a replay, None while recording. chosen: the pieces that are done
    again in full; None: all of them, where the file has no ledger. arrays: what is recorded.
    pieces: every piece of work met so far; within: the tolerance that those done again need.
    """

    saved: Result | None = None
    chosen: frozenset[Piece] | None = frozenset()
    arrays: Result = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    calls: int = 0
    within: float = NEAR
    solved: list[Certificate] = field(default_factory=list)
    places: dict[int, str] = field(default_factory=dict)

    def call(self, count: int, within: float = RUN) -> tuple[str, list[int]]:
        """The name of the next call, on `count` instances, and which are done again in full."""
        number = self.calls
        self.calls += 1
        new: list[Piece] = [("run", number, b) for b in range(count)]
        self.pieces += new
        full = [b for b, piece in enumerate(new) if self.chosen is None or piece in self.chosen]
        if full:
            self.within = max(self.within, within)
        return f"{LEDGER}{number}.", full

    def read(self, name: str) -> Any:
        """An array of the ledger on file."""
        if self.saved is None or name not in self.saved:
            raise Doubt(f"the array {name} is not on file")
        return self.saved[name]

    def closed(self) -> Result:
        """The arrays of the ledger, with the place in the result of every solution."""
        places = [self.places.get(id(c), "") for c in self.solved]
        return {**self.arrays, _SOLVED: np.array(places, dtype=np.str_)}


_OPEN: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def opened(ledger: Ledger) -> Iterator[Ledger]:
    """A context in which claims write in this ledger, or read from it."""
    token = _OPEN.set(ledger)
    try:
        yield ledger
    finally:
        _OPEN.reset(token)


def train(tokens: Tokens | Sequence[Tokens] | Sentences, **given: Any) -> Path:
    """The Path of `attsvm.train` with these arguments; `steps` must be among them."""
    ledger = _OPEN.get()
    if ledger is None:
        return train_in_full(tokens, **given)
    if ledger.saved is None:
        return _recorded(ledger, tokens, given)
    return _replayed(ledger, tokens, given)


def _recorded(ledger: Ledger, tokens: Any, given: dict[str, Any]) -> Path:
    """The run in two parts, all steps but one and the last: the same run to the last bit."""
    before = train_in_full(tokens, **{**given, "steps": given["steps"] - 1})
    name, _ = ledger.call(before.size)
    ledger.arrays |= {f"{name}{block}": a[-1] for block, a in before.weights.items()}
    ledger.arrays |= {f"{name}state.{part}": np.asarray(a) for part, a in before.state.items()}
    return train_in_full(tokens, start=before, steps=1, **_again(given))


def _replayed(ledger: Ledger, tokens: Any, given: dict[str, Any]) -> Path:
    """The run as far as it is known: its start, its end, and all records of chosen instances."""
    first = train_in_full(tokens, **{**given, "steps": 0})
    name, full = ledger.call(first.size)
    steps = grid(0, given["steps"], first.records)
    if steps[-1] != given["steps"]:
        steps = np.append(steps, given["steps"])
    path = _veiled(first, steps)
    if ledger.chosen is not None:
        _fill(path, 0, _late(ledger, name, tokens, given, first), range(first.size), last=True)
    if full:
        part = _subset(tokens, given, first, full)
        if not np.array_equal(part.steps, steps):
            raise Doubt(f"run {name} has other steps than its config asks for")
        _fill(path, slice(None), part, full)
    return path


def _late(ledger: Ledger, name: str, tokens: Any, given: dict[str, Any], first: Path) -> Path:
    """The last step, taken again from the record before it."""
    before: dict[str, Floats] = {}
    for block, start in first.weights.items():
        before[block] = np.asarray(ledger.read(f"{name}{block}"))[None]
        if before[block].shape != start.shape or not np.isfinite(before[block]).all():
            raise Doubt(f"the array {name}{block} is not a record of its run")
    state = {part: np.asarray(ledger.read(f"{name}state.{part}")) for part in first.state}
    late = replace(first, steps=np.array([given["steps"] - 1]), weights=before, state=state)
    return train_in_full(tokens, start=late, steps=1, **_again(given))


def _again(given: dict[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in _AGAIN if key in given}


def _veiled(first: Path, steps: Ints) -> Path:
    """A path with these steps of which the start alone is known."""
    R = len(steps)

    def floats(a: Floats) -> Floats:
        out = np.full((R, *a.shape[1:]), np.nan)
        out[0] = a[0]
        return out

    top = np.full((R, *first.top.shape[1:]), UNKNOWN)
    top[0] = first.top[0]
    return replace(
        first, steps=steps, weights={name: floats(a) for name, a in first.weights.items()},
        loss=floats(first.loss), log_gradient=floats(first.log_gradient), top=top,
        sureness=floats(first.sureness), clock=np.full((R, first.size), np.nan),
        changed=np.full(first.changed.shape, UNKNOWN),
    )  # fmt: skip


def _fill(path: Path, rows: Any, part: Path, places: Sequence[int], *, last: bool = False) -> None:
    """Put the records of a path of these instances in their places; last: its end alone."""
    rows, source = (-1, -1) if last else (rows, slice(None))
    columns: list[tuple[Any, Any]]
    columns = [(path.weights[name], part.weights[name]) for name in path.weights]
    columns += [(path.loss, part.loss), (path.log_gradient, part.log_gradient)]
    columns += [(path.top, part.top), (path.sureness, part.sureness)]
    for into, found in columns:
        into[rows, list(places)] = found[source]
    if not last:
        path.clock[:, list(places)] = part.clock
        path.changed[list(places)] = part.changed


def _subset(tokens: Any, given: dict[str, Any], first: Path, places: list[int]) -> Path:
    """The whole run of these instances of a stack, from their own starts."""
    if first.size == 1:
        return train_in_full(tokens, **given)
    init = {name: a[0][places] for name, a in first.weights.items()}
    head = given.get("head")
    if isinstance(head, Head):
        head = replace(head, **{head.block: getattr(head, head.block)[places]})  # type: ignore[type-var]
    elif head is not None and not isinstance(head, str) and np.ndim(head) == 2:
        head = np.asarray(head)[places]
    return train_in_full([tokens[b] for b in places], **{**given, "init": init, "head": head})


def measured(
    compute: Callable[[list[int]], Result],
    shapes: dict[str, tuple[int, ...]],
    *,
    count: int = 1,
    axis: int = 0,
    steady: Bools | None = None,
) -> Result:
    """Arrays of these shapes that some other search found: compute(which), of these instances.

    count: how many instances there are, along `axis` of every array where they are more than one;
    each can be computed by itself. steady: where, along the first axis, another processor finds
    the same numbers; elsewhere a replay does not know them.
    """
    ledger = _OPEN.get()
    every = list(range(count))
    if ledger is None:
        return compute(every)
    _, full = ledger.call(count, SEARCH)
    if ledger.saved is None:
        return compute(every)
    out = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
    if full:
        for name, found in compute(full).items():
            if count == 1:
                out[name][...] = found
            else:
                np.moveaxis(out[name], axis, 0)[full] = np.moveaxis(found, axis, 0)
            if steady is not None and ledger.chosen is not None:
                out[name][~steady] = np.nan
    return out


def searched(
    search: Callable[[], _T], read: Callable[[_T], Result], shapes: dict[str, tuple[int, ...]]
) -> Result:
    """The arrays of these shapes that `read` takes from one search."""
    return measured(lambda which: read(search()), shapes)


def recalled(name: str, value: Any) -> Any:
    """A value that follows from more of a run than is kept: in a replay the one on file.

    A replay does not vouch for it: the check of the claim must, or must not rest on it.
    """
    ledger = _OPEN.get()
    if ledger is None:
        return value
    name = f"{LEDGER}recalled.{name}"
    if ledger.saved is None:
        ledger.arrays[name] = np.asarray(value)
        return value
    return value if ledger.chosen is None else ledger.read(name)


def solve(problem: Problem, norm: str | Norm = "frobenius") -> Certificate:
    """The Certificate of `attsvm.solve`; in a replay what the solution on file supports."""
    return _certified([problem], norm, lambda: [front.solve(problem, norm)])[0]


def solve_many(problems: Sequence[Problem], norm: str | Norm = "frobenius") -> list[Certificate]:
    """The Certificates of `attsvm.solve_many`; in a replay what the solutions on file support."""
    return _certified(problems, norm, lambda: many.solve_many(list(problems), norm))


def _certified(
    problems: Sequence[Problem], norm: str | Norm, solved: Callable[[], list[Certificate]]
) -> list[Certificate]:
    ledger = _OPEN.get()
    if ledger is None:
        return solved()
    if ledger.saved is None or ledger.chosen is None or _SOLVED not in ledger.saved:
        found = solved()
        ledger.solved += found
        return found
    out = []
    for problem in problems:
        out.append(_from_file(ledger, problem, norm))
        ledger.solved.append(out[-1])
    return out


def _from_file(ledger: Ledger, problem: Problem, norm: str | Norm) -> Certificate:
    """What the next solution on file proves. One that proves nothing is solved for again: if that
    succeeds, the one on file was spoiled."""
    number = len(ledger.solved)
    piece: Piece = ("solve", number, 0)
    ledger.pieces.append(piece)
    places = ledger.read(_SOLVED)
    if number >= len(places):
        raise Doubt("the run solves more problems than there are solutions on file")
    where = str(places[number])
    if not where:
        return front.solve(problem, norm)
    name, _, place = where.rpartition("|")
    b = int(place)
    W, lam, mu = (np.asarray(ledger.read(f"{name}.{x}"))[b] for x in ("W", "multipliers", "ties"))
    known = None if np.isnan(W).any() else W
    found = certify(problem, norm, known, lam[: problem.m], mu[: problem.ties])
    if found.status in _SETTLED and piece not in (ledger.chosen or ()):
        return found
    fresh = front.solve(problem, norm)
    if fresh.status in _SETTLED and found.status != fresh.status:
        raise Doubt(
            f"solution {b} of {name} is {found.status} as it is on file, and {fresh.status} when "
            "it is solved for again"
        )
    return found


def place(name: str, certificates: Sequence[Certificate]) -> None:
    """Note that these solutions are kept in the result under this name, in this order."""
    ledger = _OPEN.get()
    if ledger is not None:
        ledger.places |= {id(c): f"{name}|{b}" for b, c in enumerate(certificates)}

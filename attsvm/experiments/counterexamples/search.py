"""Blocks of instances, each fixed by the seed and its number, and what is found in one.

A hunt goes through the blocks in order, so that it can stop and go on anywhere, and gives the same
however many processes share them. Kinds of blocks take turns:

every   all instances of one size whose entries are small whole numbers, a slice at a time
drawn   instances of any size, entries small whole numbers, then simple fractions, then random
climb   from a drawn instance, single entries changed as long as the violation does not fall
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.objects import is_outside, load_object
from attsvm.errors import ConvergenceWarning
from attsvm.experiments.statements import Space, Statement, statement_of
from attsvm.experiments.statements.statement import FINEST, LEVELS, check_statement

Drawn = dict[str, Floats]

# Sizes with more instances than this at a level are not gone through whole.
_EVERY = 60_000
# The levels that are gone through whole.
_WHOLE = ("−1..1", "−2..2", "−3..3")
# Entries that are drawn from a normal distribution and rounded to eighths.
RANDOM = "eighths in −4..4"
_CYCLE = ("every", "drawn", "climb", "every", "drawn", "climb", "drawn")
# Candidates of one block that an exact check does not confirm, before it goes on without checks.
_DOUBTS = 3
# Changes of a climb without a rise before it starts again.
_PATIENCE = 40


# ---------------------------------------------------------------- blocks


@dataclass(frozen=True)
class SearchBlock:
    """Block `index` of a hunt: its kind, the level of its entries, and of `every` the slice."""

    index: int
    kind: str
    level: str
    count: int
    sizes: Mapping[str, int] | None = None
    first: int = 0

    @property
    def entries(self) -> tuple[float, ...]:
        """The numbers that entries are drawn from, simplest first."""
        return LEVELS.get(self.level, FINEST)


def slices(statement: Statement) -> list[tuple[dict[str, int], str, int, int]]:
    """(sizes, level, first, count) of all blocks of the kind `every`, the fewest first."""
    space = statement.space
    levels = _WHOLE if any(f.values is None for f in space.fields) else _WHOLE[:1]
    cells = [
        (space.count(sizes, LEVELS[level]), k, level, sizes)
        for k, sizes in enumerate(space.choices)
        for level in levels
    ]
    return [
        (sizes, level, first, min(statement.block, count - first))
        for count, _, level, sizes in sorted(cells, key=lambda c: c[:3])
        if count <= _EVERY
        for first in range(0, count, statement.block)
    ]


def block_at(statement: Statement, index: int) -> SearchBlock:
    """The block of this number."""
    rounds, place = divmod(index, len(_CYCLE))
    kind = _CYCLE[place]
    turn = rounds * _CYCLE.count(kind) + _CYCLE[:place].count(kind)
    if kind == "every":
        listed = slices(statement)
        if turn < len(listed):
            sizes, level, first, count = listed[turn]
            return SearchBlock(index, kind, level, count, sizes, first)
        kind = "drawn"
    names = (*LEVELS, RANDOM)
    return SearchBlock(index, kind, names[turn % len(names)], statement.block)


def stream(seed: int, block: SearchBlock) -> np.random.Generator:
    """The random numbers of a block."""
    return np.random.default_rng([seed, block.index])


def draw(space: Space, block: SearchBlock, rng: np.random.Generator) -> Drawn:
    """One drawn instance of a block, of sizes that fit."""
    sizes = space.choices[int(rng.integers(len(space.choices)))]
    out: Drawn = {}
    for f in space.fields:
        shape = f.shape(sizes)
        if block.level == RANDOM and f.values is None:
            normal = np.clip(np.round(8 * rng.standard_normal(shape)) / 8, -4.0, 4.0)
            out[f.name] = f.scale * normal
        else:
            out[f.name] = rng.choice(np.array(f.entries(block.entries)), shape)
    return out


def listed(space: Space, block: SearchBlock) -> Iterator[Drawn]:
    """The instances of a block of the kind `every`, in order."""
    sizes = block.sizes or space.choices[0]
    tables = {f.name: np.array(f.entries(block.entries)) for f in space.fields}
    shapes = {f.name: f.shape(sizes) for f in space.fields}
    lengths = [len(tables[name]) for name, shape in shapes.items() for _ in range(prod(shape))]
    ends = np.cumsum([prod(shape) for shape in shapes.values()])[:-1]
    for number in range(block.first, block.first + block.count):
        digits = np.split(np.array(np.unravel_index(number, lengths, order="F")), ends)
        yield {
            name: tables[name][part].reshape(shape)
            for (name, shape), part in zip(shapes.items(), digits, strict=True)
        }


# ---------------------------------------------------------------- searching


@dataclass
class Tally:
    """What was found in some blocks, in plain values.

    tried: instances looked at; held: those that meet the premises; doubtful: candidates in floats
    that the exact check does not confirm, the first of them `doubt`; best, where: the largest
    violation and its drawn arrays; candidate: the drawn arrays of the first candidate that stands;
    covered: tried by level; largest: the largest size of each letter.
    """

    tried: int = 0
    held: int = 0
    doubtful: int = 0
    best: float = -np.inf
    where: dict[str, Any] | None = None
    doubt: dict[str, Any] | None = None
    candidate: dict[str, Any] | None = None
    covered: Counter[str] = field(default_factory=Counter)
    largest: dict[str, int] = field(default_factory=dict)

    def grow(self, sizes: Mapping[str, int]) -> None:
        """Note sizes that were tried."""
        for letter, size in sizes.items():
            self.largest[letter] = max(self.largest.get(letter, 0), size)


def found_statement(reference: str) -> Statement:
    """The statement of this name, claim or `FILE.py:NAME`, checked. Raises Unsupported."""
    if is_outside(reference):
        return check_statement(load_object(reference, "a statement"), reference)
    return check_statement(statement_of(reference), reference)


def search_block(reference: str | Statement, seed: int, index: int) -> Tally:
    """The tally of one block of a hunt; it ends at the first instance that is found."""
    statement = found_statement(reference) if isinstance(reference, str) else reference
    block, tally = block_at(statement, index), Tally()
    look = _Look(statement, block, tally)
    rng = stream(seed, block)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if block.kind == "climb":
            _climb(statement, block, rng, look)
        elif block.kind == "every":
            _go_through(listed(statement.space, block), look)
        else:
            _go_through((draw(statement.space, block, rng) for _ in range(block.count)), look)
    return tally


def _go_through(instances: Iterator[Drawn], look: _Look) -> None:
    for drawn in instances:
        look(drawn)
        if look.tally.candidate is not None:
            return


class _Look:
    """Looks at instances and keeps the tally."""

    def __init__(self, statement: Statement, block: SearchBlock, tally: Tally) -> None:
        self.statement, self.tally = statement, tally
        self.level = _level_words(statement.space, block.level)

    def __call__(self, drawn: Drawn) -> float | None:
        """The violation of an instance, None where its premises do not hold."""
        tally, statement = self.tally, self.statement
        tally.tried += 1
        tally.covered[self.level] += 1
        tally.grow(statement.space.sizes_of(drawn))
        instance = statement.space.instance(drawn)
        if not statement.holds_premises(instance):
            return None
        tally.held += 1
        value = statement.broken_by(instance)
        if value > tally.best:
            tally.best, tally.where = value, plain(drawn)
        if value > statement.tolerance and tally.candidate is None:
            if statement.confirm is None or (
                tally.doubtful < _DOUBTS and statement.checked(instance).proved
            ):
                tally.candidate = plain(drawn)
            else:
                tally.doubtful += 1
                tally.doubt = tally.doubt or plain(drawn)
        return value


def _level_words(space: Space, level: str) -> str:
    """The entries of a level in words; those of the arrays where all of them have their own."""
    if any(f.values is None for f in space.fields):
        return level if level[0].isalpha() else f"in {level}"
    values = sorted({x for f in space.fields for x in f.values or ()})
    return ", ".join(f"{x:g}".replace("-", "−") for x in values)


def _climb(statement: Statement, block: SearchBlock, rng: np.random.Generator, look: _Look) -> None:
    """Local search: change one entry, or two, and go on from there unless the violation falls."""
    here, value, stuck = None, -np.inf, _PATIENCE
    for _ in range(block.count):
        if look.tally.candidate is not None:
            return
        if here is None or stuck >= _PATIENCE:
            trial = draw(statement.space, block, rng)
            found = look(trial)
            here, value, stuck = (trial, found, 0) if found is not None else (None, -np.inf, 0)
            continue
        trial = _changed(statement, block, here, rng)
        found = look(trial)
        if found is not None and found >= value:
            stuck = stuck + 1 if found == value else 0
            here, value = trial, found
        else:
            stuck += 1


def _changed(
    statement: Statement, block: SearchBlock, drawn: Drawn, rng: np.random.Generator
) -> Drawn:
    """The instance with one or two entries drawn again."""
    out = {name: array.copy() for name, array in drawn.items()}
    fields = {f.name: f for f in statement.space.fields}
    sizes = np.array([a.size for a in out.values()])
    for _ in range(int(rng.integers(1, 3))):
        name = list(out)[int(rng.choice(len(out), p=sizes / sizes.sum()))]
        entries = fields[name].entries(block.entries)
        out[name].flat[int(rng.integers(out[name].size))] = entries[int(rng.integers(len(entries)))]
    return out


def plain(drawn: Mapping[str, Floats]) -> dict[str, Any]:
    """Drawn arrays as lists, which JSON keeps to the last digit."""
    return {name: array.tolist() for name, array in drawn.items()}


def arrays(saved: Mapping[str, Any]) -> Drawn:
    """The arrays of `plain`."""
    return {name: np.array(a, dtype=np.float64) for name, a in saved.items()}

"""The plan of a hunt: blocks of instances, each fixed by the seed and its number.

A hunt goes through the blocks in order, so that it can stop and go on anywhere, and gives the same
however many processes share them. Kinds of blocks take turns:

every   all instances of one size whose entries are small whole numbers, a slice at a time
drawn   instances of any size, entries small whole numbers, then simple fractions, then random
climb   from a drawn instance, single entries changed as long as the violation does not fall
guided  Hypothesis draws, guided by the violation
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.statement import FINEST, LEVELS, Space, Statement

Kind = Literal["every", "drawn", "climb", "guided"]
Drawn = dict[str, Floats]

# Sizes with more instances than this at a level are not gone through whole.
_EVERY = 60_000
# The levels that are gone through whole.
_WHOLE = ("−1..1", "−2..2", "−3..3")
# Entries that are drawn from a normal distribution and rounded to eighths.
RANDOM = "eighths in −4..4"
_CYCLE: tuple[Kind, ...] = (
    "every", "drawn", "climb", "every", "drawn", "climb", "drawn", "guided",
)  # fmt: skip
# A guided block is so much shorter: Hypothesis takes milliseconds for an instance.
_GUIDED = 4


@dataclass(frozen=True)
class SearchBlock:
    """Block `index` of a hunt: its kind, the level of its entries, and of `every` the slice."""

    index: int
    kind: Kind
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
    cells = [
        (space.count(sizes, LEVELS[level]), k, level, sizes)
        for k, sizes in enumerate(space.choices)
        for level in (_WHOLE if any(f.values is None for f in space.fields) else _WHOLE[:1])
    ]
    out = []
    for count, _, level, sizes in sorted(cells, key=lambda c: (c[0], c[1], c[2])):
        if count <= _EVERY:
            for first in range(0, count, statement.block):
                out.append((sizes, level, first, min(statement.block, count - first)))
    return out


def block_at(statement: Statement, index: int) -> SearchBlock:
    """The block of this number."""
    kind = _CYCLE[index % len(_CYCLE)]
    rounds, place = divmod(index, len(_CYCLE))
    turn = rounds * _CYCLE.count(kind) + _CYCLE[:place].count(kind)
    if kind == "every":
        listed = slices(statement)
        if turn < len(listed):
            sizes, level, first, count = listed[turn]
            return SearchBlock(index, kind, level, count, sizes, first)
        kind = "drawn"
    names = (*LEVELS, RANDOM)
    count = statement.block if kind != "guided" else max(statement.block // _GUIDED, 5)
    return SearchBlock(index, kind, names[turn % len(names)], count)


def level_words(space: Space, level: str) -> str:
    """The entries of a level in words; those of the arrays where all of them have their own."""
    if any(f.values is None for f in space.fields):
        return level if level[0].isalpha() else f"in {level}"
    values = sorted({x for f in space.fields for x in f.values or ()})
    return ", ".join(f"{x:g}".replace("-", "−") for x in values)


def stream(seed: int, block: SearchBlock) -> np.random.Generator:
    """The random numbers of a block."""
    return np.random.default_rng([seed, block.index])


def draw(space: Space, block: SearchBlock, rng: np.random.Generator) -> Drawn:
    """One drawn instance of a block, of sizes that fit."""
    sizes = space.choices[int(rng.integers(len(space.choices)))]
    out: Drawn = {}
    for field in space.fields:
        shape = field.shape(sizes)
        if block.level == RANDOM and field.values is None:
            normal = np.clip(np.round(8 * rng.standard_normal(shape)) / 8, -4.0, 4.0)
            out[field.name] = field.scale * normal
        else:
            out[field.name] = rng.choice(np.array(field.entries(block.entries)), shape)
    return out


def listed(space: Space, block: SearchBlock) -> Iterator[Drawn]:
    """The instances of a block of the kind `every`, in order."""
    sizes = block.sizes or space.choices[0]
    tables = [np.array(f.entries(block.entries)) for f in space.fields]
    shapes = [f.shape(sizes) for f in space.fields]
    lengths = [len(t) for t, s in zip(tables, shapes, strict=True) for _ in range(prod(s))]
    for number in range(block.first, block.first + block.count):
        digits, rest = [], number
        for base in lengths:
            rest, digit = divmod(rest, base)
            digits.append(digit)
        out, at = {}, 0
        for field, table, shape in zip(space.fields, tables, shapes, strict=True):
            k = prod(shape)
            out[field.name] = table[digits[at : at + k]].reshape(shape)
            at += k
        yield out

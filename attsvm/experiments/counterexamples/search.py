"""One block of a hunt, searched: how many were tried, the best so far, and what was found."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.objects import is_outside, load_object
from attsvm.errors import ConvergenceWarning
from attsvm.experiments.counterexamples.plan import (
    Drawn,
    SearchBlock,
    block_at,
    draw,
    level_words,
    listed,
    stream,
)
from attsvm.experiments.statements import Confirmation, Statement, statement_of
from attsvm.experiments.statements.statement import check_statement

# Candidates of one block that an exact check does not confirm, before it goes on without checks.
_DOUBTS = 3
# Changes of a climb without a rise before it starts again.
_PATIENCE = 40


@dataclass
class Tally:
    """What one block found, in plain values.

    tried: instances looked at, held: those that meet the premises; doubtful: candidates that the
    exact check does not confirm; best: the largest violation and its drawn arrays; found: the
    drawn arrays of the first candidate that stands; covered: tried by sizes and level.
    """

    index: int
    tried: int = 0
    held: int = 0
    doubtful: int = 0
    best: float = -np.inf
    where: dict[str, Any] | None = None
    found: dict[str, Any] | None = None
    doubt: dict[str, Any] | None = None
    covered: Counter[str] = field(default_factory=Counter)


def found_statement(reference: str) -> Statement:
    """The statement of this name, claim or `FILE.py:NAME`, checked. Raises Unsupported."""
    if is_outside(reference):
        return check_statement(load_object(reference, "a statement"), reference)
    return check_statement(statement_of(reference), reference)


def search_block(reference: str, seed: int, index: int) -> Tally:
    """The tally of one block, in whatever process it is asked for."""
    return tally_of(found_statement(reference), seed, index)


def tally_of(statement: Statement, seed: int, index: int) -> Tally:
    """The tally of one block of a hunt; it ends at the first instance that is found."""
    block = block_at(statement, index)
    hunter = _Hunter(statement, block, Tally(index))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if block.kind == "guided":
            from attsvm.experiments.counterexamples.shrinking import guided

            guided(statement, block, seed, hunter.look)
        elif block.kind == "climb":
            _climb(statement, block, stream(seed, block), hunter)
        else:
            for drawn in _drawn(statement, block, seed):
                if hunter.look(drawn) is None and hunter.done:
                    break
    return hunter.tally


def _drawn(statement: Statement, block: SearchBlock, seed: int) -> Iterator[Drawn]:
    if block.kind == "every":
        return listed(statement.space, block)
    rng = stream(seed, block)
    return (draw(statement.space, block, rng) for _ in range(block.count))


class _Hunter:
    """Looks at instances and keeps the tally."""

    def __init__(self, statement: Statement, block: SearchBlock, tally: Tally) -> None:
        self.statement, self.block, self.tally = statement, block, tally
        self._cells: dict[tuple[int, ...], str] = {}

    @property
    def done(self) -> bool:
        """Whether something was found."""
        return self.tally.found is not None

    def look(self, drawn: Drawn) -> float | None:
        """The violation of an instance, None where its premises do not hold."""
        tally, statement = self.tally, self.statement
        tally.tried += 1
        tally.covered[self._cell(drawn)] += 1
        instance = statement.space.instance(drawn)
        if not statement.holds_premises(instance):
            return None
        tally.held += 1
        value = statement.broken_by(instance)
        if value > tally.best:
            tally.best, tally.where = value, plain(drawn)
        if value > statement.tolerance and not self.done:
            if statement.confirm is None or (
                tally.doubtful < _DOUBTS and statement.checked(instance).proved
            ):
                tally.found = plain(drawn)
            else:
                tally.doubtful += 1
                tally.doubt = tally.doubt or plain(drawn)
        return value

    def _cell(self, drawn: Drawn) -> str:
        """Sizes and level in words: what `covered` counts by."""
        shapes = tuple(size for a in drawn.values() for size in a.shape)
        if shapes not in self._cells:
            sizes: dict[str, int] = {}
            for f in self.statement.space.fields:
                pairs = zip(f.axes, drawn[f.name].shape, strict=True)
                sizes |= {axis: size for axis, size in pairs if isinstance(axis, str)}
            said = ", ".join(f"{k} = {v}" for k, v in sizes.items())
            words = level_words(self.statement.space, self.block.level)
            self._cells[shapes] = f"{said}; {words}; {self.block.kind}"
        return self._cells[shapes]


def _climb(
    statement: Statement, block: SearchBlock, rng: np.random.Generator, hunter: _Hunter
) -> None:
    """Local search: change one entry, or two, and go on from there unless the violation falls."""
    here, value, stuck = None, -np.inf, _PATIENCE
    for _ in range(block.count):
        if hunter.done:
            return
        if here is None or stuck >= _PATIENCE:
            trial = draw(statement.space, block, rng)
            found = hunter.look(trial)
            here, value, stuck = (trial, found, 0) if found is not None else (None, -np.inf, 0)
            continue
        trial = _changed(statement, block, here, rng)
        found = hunter.look(trial)
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


def plain(drawn: Drawn) -> dict[str, Any]:
    """Drawn arrays as lists, which JSON keeps to the last digit."""
    return {name: array.tolist() for name, array in drawn.items()}


def arrays(saved: dict[str, Any]) -> Drawn:
    """The arrays of `plain`."""
    out: dict[str, Floats] = {name: np.array(a, dtype=np.float64) for name, a in saved.items()}
    return out


def confirmed(statement: Statement, drawn: Drawn) -> Confirmation | None:
    """The exact check of a drawn instance, None where it does not break the statement at all."""
    instance = statement.space.instance(drawn)
    if not statement.holds_premises(instance):
        return None
    if not statement.broken_by(instance) > statement.tolerance:
        return None
    return statement.checked(instance)

"""Hypothesis: its guided search for a block, and its shrinking of what was found.

A found instance is handed to Hypothesis as the choices that make it: for each input, token and
dimension whether it stays, then for each entry the place of its value in a list with the simplest
first. Shrinking lowers these choices in order: fewer inputs, tokens and dimensions, then smaller
numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from math import prod
from random import Random
from typing import Any
from unittest import SkipTest

import numpy as np

from attsvm._utils.version import install
from attsvm.errors import Unsupported
from attsvm.experiments.counterexamples.search import Drawn, SearchBlock
from attsvm.experiments.statements import Statement
from attsvm.experiments.statements.statement import FINEST, simplest

_KEY = b"attsvm hunt"
# Instances that shrinking may try.
_TRIES = 20_000


def require_hypothesis() -> None:
    """Raises Unsupported unless Hypothesis is installed, with the line that installs it."""
    if find_spec("hypothesis") is None:
        raise Unsupported(f"a hunt searches and shrinks with Hypothesis: {install('hunt')}")


def _settings(**more: Any) -> Any:
    from hypothesis import HealthCheck, Verbosity, settings

    return settings(
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        **more,
    )


def guided(
    statement: Statement, block: SearchBlock, seed: int, look: Callable[[Drawn], float | None]
) -> None:
    """Let Hypothesis draw the instances of a block, guided by their violation."""
    from hypothesis import Phase, find, target
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample

    space, level = statement.space, block.entries

    @st.composite
    def instances(choose: Any) -> Drawn:
        sizes = space.choices[choose(st.integers(0, len(space.choices) - 1))]
        return {f.name: _array(choose, f.shape(sizes), f.entries(level)) for f in space.fields}

    def stands(drawn: Drawn) -> bool:
        value = look(drawn)
        if value is not None:
            target(value)
        return False  # what is found is in the tally; the search goes on to its end

    phases = (Phase.generate, Phase.target)
    settings = _settings(max_examples=block.count, database=None, phases=phases)
    with suppress(NoSuchExample):
        find(instances(), stands, settings=settings, random=Random(f"{seed} {block.index}"))


def _array(choose: Any, shape: tuple[int, ...], table: tuple[float, ...]) -> Any:
    """An array whose entries Hypothesis chooses by their place in a table."""
    from hypothesis import strategies as st

    place = st.integers(0, len(table) - 1)
    return np.array([table[choose(place)] for _ in range(prod(shape))]).reshape(shape)


def shrink(statement: Statement, drawn: Drawn, *, seed: int, seconds: float) -> tuple[Drawn, str]:
    """(the smallest instance that Hypothesis gets to from this one and that still stands, a note).

    Stands: the premises hold, the violation is positive, and where there is an exact check it
    confirms. After so many seconds, and at an interrupt, it stays with what it has. Instances on
    which the statement itself fails are left out; the note tells of the first.
    """
    from hypothesis import Phase, given
    from hypothesis import seed as seeded
    from hypothesis import strategies as st
    from hypothesis.database import InMemoryExampleDatabase, choices_to_bytes

    space = statement.space
    letters = space.sizes_of(drawn)
    tables = {
        f.name: f.values or simplest({*f.entries(FINEST), *drawn[f.name].ravel().tolist()})
        for f in space.fields
    }

    @st.composite
    def parts(choose: Any) -> Drawn | None:
        keep = {
            letter: [choose(st.booleans()) for _ in range(size)] for letter, size in letters.items()
        }
        whole = {f.name: _array(choose, drawn[f.name].shape, tables[f.name]) for f in space.fields}
        if {letter: sum(stays) for letter, stays in keep.items()} not in space.choices:
            return None
        return {f.name: _kept(whole[f.name], f.axes, keep) for f in space.fields}

    end = time.monotonic() + seconds
    best = [drawn]
    notes: list[str] = []

    # A seed takes the database away unless settings come after it.
    database = InMemoryExampleDatabase()

    @_settings(max_examples=_TRIES, database=database, phases=(Phase.reuse, Phase.shrink))
    @seeded(seed)
    @given(parts())
    def stands(part: Drawn | None) -> None:
        if part is None or time.monotonic() > end:
            return
        try:
            if not _breaks(statement, part):
                return
        except Exception as error:  # whatever the statement of a user raises, what stands is kept
            said = " ".join(str(error).split()) or type(error).__name__
            notes.append(f"while shrinking, instances were left out because {said}")
            return
        best[0] = part
        raise _Stands

    choices: list[Any] = [True for size in letters.values() for _ in range(size)]
    for f in space.fields:
        choices += [tables[f.name].index(float(x)) for x in drawn[f.name].ravel()]
    # What lies under the key itself is taken to be shrunk already.
    stands._hypothesis_internal_database_key = _KEY
    database.save(_KEY + b".secondary", choices_to_bytes(choices))
    try:
        with suppress(_Stands, SkipTest):
            stands()
    except KeyboardInterrupt:
        notes = ["shrinking was interrupted: this is the smallest instance so far"]
    return best[0], notes[0] if notes else ""


class _Stands(Exception):
    """Tells Hypothesis that an instance breaks the statement."""


def _breaks(statement: Statement, drawn: Drawn) -> bool:
    """Whether an instance breaks the statement: by the exact check, where there is one."""
    instance = statement.space.instance(drawn)
    if not statement.holds_premises(instance):
        return False
    if not statement.broken_by(instance) > statement.tolerance:
        return False
    return statement.confirm is None or statement.checked(instance).proved


def _kept(whole: Any, axes: tuple[str | int, ...], keep: dict[str, list[bool]]) -> Any:
    """The part of an array that stays."""
    for place, axis in enumerate(axes):
        if isinstance(axis, str):
            whole = np.compress(keep[axis], whole, axis=place)
    return whole

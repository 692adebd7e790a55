"""shrink(): from an instance that breaks a statement to a smaller and simpler one.

Inputs, tokens and dimensions are taken away one by one, then entries are replaced by simpler
numbers, as long as the statement stays broken; it ends where no single change is left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.counterexamples.search import Drawn
from attsvm.experiments.statements import Space, Statement
from attsvm.experiments.statements.statement import FINEST, simplest


def shrink(statement: Statement, drawn: Drawn, *, seconds: float) -> tuple[Drawn, str]:
    """(an instance that no single change makes simpler, a note).

    An instance stands if its premises hold, its violation is positive and, where there is an exact
    check, that confirms it. After so many seconds, and at an interrupt, the last one that stands is
    kept. Instances on which the statement itself fails are left out; the note tells of the first.
    """
    best, note, end = drawn, "", time.monotonic() + seconds
    trials = _simpler(statement.space, best)
    try:
        while (trial := next(trials, None)) is not None and time.monotonic() < end:
            try:
                stands = _breaks(statement, trial)
            except Exception as error:  # whatever the statement of a user raises
                said = " ".join(str(error).split()) or type(error).__name__
                note = note or f"while shrinking, instances were left out because {said}"
                continue
            if stands:
                best, trials = trial, _simpler(statement.space, trial)
    except KeyboardInterrupt:
        note = "shrinking was interrupted: this is the smallest instance so far"
    return best, note


def _breaks(statement: Statement, drawn: Drawn) -> bool:
    """Whether an instance breaks the statement: by the exact check, where there is one."""
    one = statement.space.instance(drawn)
    if not statement.holds_premises(one) or not statement.broken_by(one) > statement.tolerance:
        return False
    return statement.confirm is None or statement.checked(one).proved


def _simpler(space: Space, drawn: Drawn) -> Iterator[Drawn]:
    """Every instance with one input, token or dimension less, then with one simpler entry."""
    sizes = space.sizes_of(drawn)
    for letter, size in sizes.items():
        if {**sizes, letter: size - 1} in space.choices:
            for k in range(size):
                yield {f.name: _without(drawn[f.name], f.axes, letter, k) for f in space.fields}
    for f in space.fields:
        table = f.values or simplest({*f.entries(FINEST), *drawn[f.name].ravel().tolist()})
        for place in np.ndindex(drawn[f.name].shape):
            for value in table[: table.index(float(drawn[f.name][place]))]:
                changed = drawn[f.name].copy()
                changed[place] = value
                yield {**drawn, f.name: changed}


def _without(array: Floats, axes: tuple[str | int, ...], letter: str, k: int) -> Floats:
    """The array without index k of every axis of this letter."""
    for place, axis in enumerate(axes):
        if axis == letter:
            array = np.delete(array, k, axis=place)
    return array

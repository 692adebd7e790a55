"""Ways to tamper with a result that fit many claims."""

from __future__ import annotations

from typing import Any

import numpy as np


def replaced(**arrays: Any):
    """Arrays put in place of others, names with __ for dots."""

    def tamper(config, result):
        return {**result, **{name.replace("__", "."): a for name, a in arrays.items()}}

    return tamper


def changed(name, change):
    """One array changed by a function."""

    def tamper(config, result):
        return {**result, name: change(np.array(result[name]))}

    return tamper


def backwards(name):
    """A path read from its end to its start."""
    return changed(name, lambda a: a[::-1])


def rolled(name, axis=0):
    """Entries moved by one place along an axis: solutions or selections of the wrong instance."""
    return changed(name, lambda a: np.roll(a, 1, axis=axis))


def scaled_up(name):
    """Multipliers that promise more than they can: the bound is recomputed, so nothing is won."""
    return changed(name, lambda a: a * 1.5 + 0.1)

"""What a family hands to the attack: a problem, what is known of it, and what is to be judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attsvm import Problem

Pair = tuple[Any, Any, Any]  # W, multipliers, tie multipliers


@dataclass
class Case:
    """A problem; `feasible`, `points` and `weights` are known of it from how it was built.

    points: matrices that meet every row. weights: multipliers of the rows in whole numbers. least:
    the matrix of least norm in every norm, where it is known. hand: for a norm, the pair given to
    `certify`; without it the problem is solved. budget: the C of a soft margin. route: another
    way to the Frobenius solution than the default. refused: the sentence with which the library
    would not take the data.
    """

    problem: Problem | None
    feasible: bool | None = None
    points: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    least: Any = None
    hand: Callable[[str], Pair] | None = None
    budget: float | None = None
    route: str = ""
    note: str = ""
    refused: str = ""
    family: str = ""
    seed: int = -1


def distances(draw: Any, base: Any, noise: Any) -> Any:
    """base moved along noise by 10^-k, k from 3 to 17, or by one rounding."""
    k = int(draw.integers(2, 18))
    if k == 2:
        return np.nextafter(base, np.where(noise > 0, np.inf, -np.inf))
    return base + 10.0**-k * noise


def whole_normal(draw: Any, shape: tuple[int, ...]) -> Any:
    """Small whole numbers, about normal."""
    return np.round(2 * draw.standard_normal(shape))

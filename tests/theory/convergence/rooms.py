"""How narrowly inequalities hold, and the directions in which they are sought to fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.theory.convergence.reference import Chosen, Merged

Array = Any
# What rounding may take from an inequality, relative to its larger side.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Narrowest:
    """How narrowly each inequality held: (right − left)/size, by name, over all members."""

    room: dict[str, float]
    count: int

    @property
    def broken(self) -> list[str]:
        """The inequalities that fail by more than rounding."""
        return [name for name, room in self.room.items() if not room >= -ROUNDING]

    def joined(self, other: Narrowest) -> Narrowest:
        """Both together."""
        names = [*self.room, *(name for name in other.room if name not in self.room)]
        room = {k: min(self.room.get(k, np.inf), other.room.get(k, np.inf)) for k in names}
        return Narrowest(room, self.count + other.count)


def room(left: Array, right: Array, size: Array | float = 0.0) -> float:
    """How far left ≤ right holds, relative to the larger side; −inf for what is not a number."""
    scale = np.maximum(np.maximum(np.abs(left), np.abs(right)), np.maximum(size, 1e-300))
    least = float(np.min((right - left) / scale, initial=np.inf))
    return -np.inf if np.isnan(least) else least


def lengths(x: Array) -> Array:
    """The lengths of the rows of x, at any scale."""
    top = np.maximum(np.abs(x).max(axis=1), 1e-300)
    return top * np.linalg.norm(x / top[:, None], axis=1)


def turned(u: Array, ray: Array) -> Array:
    """Vectors of length 1 or 0, exactly across the ray up to rounding."""
    along = ray / np.linalg.norm(ray)
    for _ in range(2):
        u = u - (u @ along)[:, None] * along
        length = np.linalg.norm(u, axis=1, keepdims=True)
        u = u / np.where(length > 0.5, length, np.inf)
    return u


def directions(chosen: Chosen | Merged, across: Array, slack: Array, count: int, rng: Any) -> Array:
    """Unit vectors among the rows' parts across the ray: against bad and nearly tight rows, random,
    and mixtures (count, D)."""
    k = len(across)
    bad = (chosen.limit <= 0).nonzero()[0]
    near = np.argsort(slack)[: max(4, k // 4)]
    pool = np.concatenate([bad, near])
    _, s, V = np.linalg.svd(across, full_matrices=False)
    V = V[s > 1e-9 * np.linalg.norm(chosen.a, axis=1).max()]
    out = []
    for j in range(count):
        kind = j % 5
        if kind == 0:
            u = -across[pool[(j // 5) % len(pool)]]
        elif kind == 1:
            u = rng.standard_normal(k) @ across
        elif kind == 2:
            u = -across[rng.choice(pool)] + rng.uniform(0, 1) * across[rng.integers(k)]
        elif kind == 3:
            weight = np.zeros(k)
            weight[pool] = -rng.exponential(size=len(pool))
            u = weight @ across
        else:
            u = rng.standard_normal(len(V)) @ V
        out.append(u)
    found = np.array(out)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    least = 1e-9 * np.linalg.norm(chosen.a, axis=1).max()
    return found / np.where(length > least, length, np.inf)

"""Selections with the cones of their token orders, and those whose paths are followed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import Config, seeds_of
from attsvm.experiments.studies.shared.order_cones import Orders, locally, orders_of
from attsvm.experiments.studies.shared.random_instances import drawn
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection


@dataclass(frozen=True, eq=False)
class ConeCase:
    """One selection in one norm: its orders, its certificate, and what that decides.

    local: whether it is locally optimal, None where open; covered: whether each input with tokens
    of higher score has a tight one; depth: the largest ε of a cone that W^mm_α lies in.
    """

    orders: Orders
    best: Certificate
    local: bool | None
    covered: bool
    depth: float


def every_selection(config: Config) -> list[tuple[Orders, Problem]]:
    """All T^n selections of every instance."""
    n, T, _ = config["shape"]
    out = []
    for seed in seeds_of(config):
        tokens, v = drawn(config["shape"], seed)
        for alpha in product(range(T), repeat=n):
            keep = Selection.of(tokens, list(alpha))
            out.append((orders_of(tokens, v, np.array(alpha)), Problem.of(tokens, keep)))
    return out


def separable(made: list[tuple[Orders, Problem]], found: list[Certificate]) -> list[ConeCase]:
    """What the certificates decide, of the selections that can be separated."""
    out = []
    for (orders, _), c in zip(made, found, strict=True):
        if c.W is None:
            continue
        local, covered = locally(c, orders)
        size = float(c.norm.value(c.W))
        out.append(ConeCase(orders, c, local, covered, orders.depth(np.asarray(c.W)) / size))
    return out


def followed_cases(config: Config, cases: list[ConeCase]) -> list[ConeCase]:
    """The selections whose paths are followed: of each instance the first so many that are locally
    optimal and not the best tokens, and as many that are not and have lower tokens to stand before
    the higher ones."""
    out: list[ConeCase] = []
    counts: dict[tuple[int, bool], int] = {}
    for case in cases:
        orders = case.orders
        if case.local is None or not orders.wrong or not all(len(low) for low in orders.low):
            continue
        if case.local and not (case.covered and case.depth > 0):
            continue
        key = (id(orders.tokens), case.local)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= config["paths"]:
            out.append(case)
    return out


def epsilon_of(config: Config, case: ConeCase) -> float:
    """Half the depth of W^mm_α where it has one, the ε of the config elsewhere."""
    return case.depth / 2 if case.local else float(config["epsilon"])

"""Where the boxes of a picture in rows stand: few crossings, short lines, no overlap. In inches."""

from __future__ import annotations

from itertools import count

import numpy as np
import scipy

from attsvm.ground.arrays import Floats, Ints

# Inches: around a text, between boxes.
PAD, GAP = 0.06, 0.14


def across(
    row: Ints, edges: list[tuple[int, int]], wide: Floats, part: Ints
) -> tuple[Floats, list[list[int]]]:
    """(x of the boxes and then of the waypoints, the waypoints of each edge from the top).

    An edge has a waypoint in each row that it crosses. Rows are sorted by the mean place of the
    neighbours, down and up, and the sorting with fewest crossings is kept; then each row moves to
    the mean x of its neighbours, as near as its sorting and widths allow (an isotonic regression).
    """
    inner = [(r, part[i]) for i, j in edges for r in range(row[i] + 1, row[j])]
    level, parts = np.append(np.column_stack([row, part]), np.array(inner, int).reshape(-1, 2), 0).T
    width, number = np.append(wide, [0.0] * len(inner)), count(len(row))
    trails = [[next(number) for _ in range(row[i] + 1, row[j])] for i, j in edges]
    links = [link for (i, j), trail in zip(edges, trails, strict=True)
             for link in zip([i, *trail], [*trail, j], strict=True)]  # fmt: skip
    a, b = np.array(links, np.int64).reshape(-1, 2).T
    near = np.zeros((len(level), len(level)))
    near[a, b] = near[b, a] = 1
    layers = [np.flatnonzero(level == r) for r in range(level.max(initial=-1) + 1)]
    at, x, fewest = np.arange(len(level), dtype=float), np.zeros(len(level)), np.inf
    for sweep in range(24):
        step = 1 if sweep % 2 == 0 else -1
        for r in range(len(layers))[::step]:
            side = near[layers[r]] * (level == r - step)
            mean = np.where(side.any(1), side @ at / np.maximum(side.sum(1), 1), at[layers[r]])
            layers[r] = layers[r][np.lexsort((mean, parts[layers[r]]))]
            at[layers[r]] = np.arange(len(layers[r]))
        crossed = (at[a][:, None] < at[a]) & (at[b][:, None] > at[b])
        crossings = int((crossed & (level[a][:, None] == level[a])).sum())
        if crossings < fewest:
            fewest, best = crossings, list(layers)
    for sweep in range(40):
        for layer in best[:: 1 if sweep % 2 == 0 else -1]:
            half = width[layer] / 2
            offset = np.cumsum(half + np.append(0.0, half[:-1] + GAP))
            goal = near[layer] @ x / np.maximum(near[layer].sum(1), 1)
            x[layer] = scipy.optimize.isotonic_regression(goal - offset).x + offset
    return x, trails


def apart(x: Floats, y: Floats, size: Floats) -> Floats:
    """x with boxes that would overlap moved to the nearest free place, from the top down."""
    x, order = x.copy(), np.lexsort((x, -y))
    for t, i in enumerate(order):
        near = [j for j in order[:t] if abs(y[i] - y[j]) < (size[i, 1] + size[j, 1]) / 2 + PAD]
        room = np.array([(size[i, 0] + size[j, 0]) / 2 + GAP for j in near])
        goals = np.concatenate([[x[i]], x[near] - room, x[near] + room])
        free = [g for g in goals if (np.abs(g - x[near]) >= room - 1e-9).all()]
        x[i] = min(free, key=lambda goal: abs(goal - goals[0]))
    return x

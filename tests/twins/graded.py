"""The plain NumPy twin of the graded kernels: the same numbers from whole arrays, slower.

It is what the compiled kernels are compared with, and shows what they compute without their loops.
Wide numbers are pairs of arrays (share, power) as in `wide`.
"""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.training.optimizers.graded.polar import ROUNDING, SQUARE, SWEEPS, Resolved
from attsvm.training.optimizers.graded.wide import APART, NONE, Sum, Wide, normal


def _shifted(x: Floats, by: Ints) -> Floats:
    """x · 2^by, zero far below the range of floats."""
    return np.where(by > -APART, np.ldexp(x, np.clip(by, -APART, 1000)), 0.0)


def _powers(share: Floats, power: Ints) -> Ints:
    """Powers that compare: NONE at zero."""
    return np.where(share == 0, NONE, power)


def added(share: Floats, power: Ints, axis: int) -> tuple[Wide, Ints]:
    """The sum along an axis, normal, and the power of its largest part."""
    power = np.broadcast_to(power, share.shape)
    top = _powers(share, power).max(axis=axis, keepdims=True, initial=NONE)
    parts = _shifted(share, power - top)
    largest = np.abs(parts).max(axis=axis, initial=0.0)
    top = top.squeeze(axis)
    noise = np.where(largest > 0, top + np.frexp(largest)[1], NONE)
    return normal(parts.sum(axis=axis), top), noise


def _silenced(x: Wide, noise: Ints) -> Wide:
    """Zero for entries that are no more than the rounding of their parts."""
    share, power = x
    bound = _shifted(np.full(share.shape, ROUNDING), np.where(share == 0, 0, noise - power))
    quiet = np.abs(share) <= bound
    return np.where(quiet, 0.0, share), np.where(quiet, NONE, power)


def _leveled(
    left: Floats, right: Floats, at: Ints, into: Ints, power: Ints
) -> tuple[Floats, Floats, Ints]:
    """Vectors with largest entries in [½, 1), and powers that make up for it."""
    for_left, for_right = (np.frexp(np.abs(x).max(axis=2))[1] for x in (left, right))
    power = power + for_left[:, at] + for_right[:, into]
    return np.ldexp(left, -for_left[..., None]), np.ldexp(right, -for_right[..., None]), power


def entries(given: Sum) -> Wide:
    """Every entry of the sum as a wide number (B, d, c)."""
    left, right, at, into, share, power = given
    left, right, power = _leveled(left, right, at, into, power)
    terms = share[:, :, None, None] * left[:, at, :, None] * right[:, into, None, :]
    return added(terms, power[:, :, None, None], 1)[0]


def span(vectors: Floats, weight: Floats) -> tuple[Ints, Floats]:
    """The members (r,) of a basis of vectors (p, d), heaviest first, and all in terms of it (r, p).

    weight (p,): logarithms to base 2, −inf for what takes no part.
    """
    size = np.linalg.norm(vectors, axis=1)
    rest, live = vectors.copy(), (weight > -np.inf) & (size > 0)
    rows: list[Floats] = []
    members: list[int] = []
    while live.any() and len(members) < vectors.shape[1]:
        left = np.linalg.norm(rest, axis=1)
        with np.errstate(divide="ignore"):
            k = int(np.where(live, weight + np.log2(left), -np.inf).argmax())
        q = rest[k] / left[k]
        live[k] = False
        row = np.where(live, rest @ q, 0.0)
        rest = rest - row[:, None] * q
        live &= np.linalg.norm(rest, axis=1) > ROUNDING * size
        row[k] = left[k]
        rows.append(row)
        members.append(k)
    R, chosen = np.array(rows).reshape(len(rows), len(vectors)), np.array(members, np.int64)
    parts = np.zeros_like(R)
    for j in range(len(rows) - 1, -1, -1):
        later = R[j, chosen[j + 1 :], None] * parts[j + 1 :]
        s = R[j] - later.sum(axis=0)
        most = np.maximum(size, np.abs(later).max(axis=0, initial=0.0))
        parts[j] = np.where(np.abs(s) > ROUNDING * most, s / R[j, chosen[j]], 0.0)
    parts[:, chosen] = np.eye(len(rows))
    return chosen, parts


def eliminate(C: Wide, noise: Ints) -> tuple[Floats, Wide, Floats]:
    """L (r, k), pivots (k,) wide and U (s, k) with C = L diag(pivots) Uᵀ, by complete pivoting."""
    share, power = C
    power = _powers(share, power)
    lower, upper, found = [], [], []
    for _ in range(min(share.shape)):
        a, b = np.unravel_index(np.lexsort((np.abs(share).ravel(), power.ravel()))[-1], share.shape)
        if share[a, b] == 0:
            break
        pivot, height, doubt = share[a, b], power[a, b], noise[a, b] - power[a, b]
        found.append((pivot, height))
        lower.append(_shifted(share[:, b] / pivot, power[:, b] - height))
        upper.append(_shifted(share[a] / pivot, power[a] - height))
        x = share[:, b, None] * share[a] / pivot
        e = power[:, b, None] + power[a] - height
        unsure = np.maximum((noise - power)[:, b, None], (noise - power)[a])
        noise = np.where(x == 0, noise, np.maximum(noise, e + np.maximum(unsure, doubt)))
        (share, power), _ = added(np.stack([share, -x]), np.stack([power, e]), 0)
        share, power = _silenced((share, power), noise)
        share[a], share[:, b], power[a], power[:, b] = 0.0, 0.0, NONE, NONE
    pivots = np.array([p for p, _ in found]), np.array([h for _, h in found], np.int64)
    return (
        np.array(lower).reshape(-1, len(share)).T,
        pivots,
        np.array(upper).reshape(-1, share.shape[1]).T,
    )


def rotate(columns: Floats, heights: Ints) -> tuple[Floats, Floats]:
    """Orthogonal columns (d, k) and the rotation V (k, k): 2^heights columns V before = after."""
    columns, V = columns.copy(), np.eye(columns.shape[1])
    for _ in range(SWEEPS):
        turned = False
        for i in range(len(V) - 1):
            for j in range(i + 1, len(V)):
                x, y = columns[:, i].copy(), columns[:, j].copy()
                a, b, g = x @ x, y @ y, x @ y
                if abs(g) <= SQUARE * np.sqrt(a * b):
                    continue
                turned = True
                ratio = float(_shifted(np.ones(1), heights[j] - heights[i])[0])
                apart = a - ratio**2 * b
                root = np.sqrt(apart**2 + 4 * ratio**2 * g**2)
                steep = 2 * g / (apart + root if apart >= 0 else apart - root)
                t = steep * ratio
                cosine = 1 / np.sqrt(1 + t**2)
                columns[:, i], columns[:, j] = (
                    cosine * (x + t * ratio * y),
                    cosine * (y - steep * x),
                )
                V[:, [i, j]] = V[:, [i, j]] @ (cosine * np.array([[1, -t], [t, 1]]))
        if not turned:
            break
    return columns, V


def resolve(given: Sum) -> Resolved:
    """U Vᵀ (B, d, c) of the sum, and the sum in two bases out of its vectors."""
    left, right, at, into, share, power = given
    left, right, power = _leveled(left, right, at, into, power)
    B, _, d = left.shape
    c = right.shape[2]
    out, X, Y = np.zeros((B, d, c)), np.zeros((B, d, d)), np.zeros((B, c, c))
    C, C_power = np.zeros((B, d, c)), np.zeros((B, d, c), np.int64)
    for b in range(B):
        with np.errstate(divide="ignore"):
            logs = np.log2(np.abs(share[b])) + power[b]
        weight, other = np.full(left.shape[1], -np.inf), np.full(right.shape[1], -np.inf)
        np.maximum.at(weight, at, logs)
        np.maximum.at(other, into, logs)
        members, parts = span(left[b], weight)
        partners, pieces = span(right[b], other)
        r, s = len(members), len(partners)
        X[b, :r], Y[b, :s] = left[b, members], right[b, partners]
        mine = into == np.arange(right.shape[1])[:, None]
        sums, noise = added(
            np.where(mine[:, :, None], (parts[:, at] * share[b]).T, 0.0), power[b][:, None], 1
        )
        sums = _silenced(sums, noise)
        found, worst = added(pieces.T[:, None, :] * sums[0][:, :, None], sums[1][:, :, None], 0)
        far = noise[:, :, None] + np.frexp(pieces.T)[1][:, None, :]
        far = np.where(pieces.T[:, None, :] != 0, far, NONE).max(axis=0, initial=NONE)
        worst = np.maximum(worst, far)
        found = _silenced(found, worst)
        C[b, :r, :s] = found[0]
        C_power[b, :r, :s] = np.where(found[0] == 0, 0, found[1])
        L, (pivots, heights), U = eliminate(found, worst)
        if len(pivots):
            Q, R = np.linalg.qr(right[b, partners].T @ U)
            mixed = _shifted(R * pivots, heights - heights[:, None])
            columns, V = rotate(left[b, members].T @ L @ mixed.T, heights)
            out[b] = columns / np.linalg.norm(columns, axis=0) @ V.T @ Q.T
    return Resolved(out, X, Y, C, C_power)


def heaviest(rows: int, at: Ints, less: Ints, share: Floats, power: Ints) -> tuple[Ints, Ints]:
    """(parent (N,), depth (N,)) of the heaviest tree over N rows, as `tree.heaviest`."""
    weight = np.full((rows, rows), -np.inf)
    live = (share != 0) & (at != less)
    logs = np.log2(np.abs(share[live])) + power[live]
    np.maximum.at(weight, (at[live], less[live]), logs)
    weight = np.maximum(weight, weight.T)
    parent, depth = np.arange(rows), np.zeros(rows, np.int64)
    near, left = np.full(rows, -np.inf), list(range(rows))
    while left:
        best = max(left, key=lambda i: near[i])
        left.remove(best)
        depth[best] = depth[parent[best]] + (parent[best] != best)
        closer = np.isin(np.arange(rows), left) & (weight[best] > near)
        near[closer], parent[closer] = weight[best, closer], best
    return parent, depth


def climbed(parent: Ints, depth: Ints, at: Ints, less: Ints) -> Floats:
    """signs (K, N): r_u − r_w = Σ_n signs_n (r_n − r_parent_n) for each term, as `tree.climbed`."""
    rows = np.arange(len(parent))
    up = np.eye(len(parent))  # the path of each row to its root
    for _ in range(int(depth.max(initial=0))):
        up = np.maximum(up, up[parent])
    up[:, parent == rows] = 0.0
    return up[at] - up[less]

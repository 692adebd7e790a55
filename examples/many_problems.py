"""
Thousands of problems at once
=============================

How wide must tokens be before attention can select the best one of every input?

For each width d, 500 random problems (6 inputs of 8 tokens on the unit sphere, the token of the
highest score selected) are solved at once. Each ends with what shows it: bounds on the least norm,
or multipliers that combine the rows to zero (up to rounding), so that no W selects these tokens.
"""

import matplotlib.pyplot as plt
import numpy as np

import attsvm

B, n, T = 500, 6, 8
shares = {}

print("  d   selectable   impossible   open   median least norm   largest gap")
for d in (2, 3, 4, 5, 6, 8, 12):
    draw = np.random.default_rng(d)
    arrays = [draw.standard_normal(shape) for shape in ((B, n, T, d), (B, n, d), (B, d))]
    X, z, v = (a / np.linalg.norm(a, axis=-1, keepdims=True) for a in arrays)
    alpha = np.einsum("bntd,bd->bnt", X, v).argmax(axis=2)
    found = attsvm.solve_many(attsvm.Stack(X, queries=z, alpha=alpha))
    status = [one.status for one in found]
    solved = [one for one in found if one.status == "optimal"]
    shares[d] = len(solved) / B
    norm = np.median([one.upper for one in solved])
    gap = max(one.gap for one in solved)
    print(
        f"{d:3d}   {len(solved):10d}   {status.count('infeasible'):10d}"
        f"   {status.count('stalled'):4d}   {norm:17.4f}   {gap:11.1e}"
    )

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axes.plot(list(shares), list(shares.values()), "o-")
axes.set(xlabel="width d", ylabel="share of problems with a W", ylim=(0, 1.05))
plt.show()

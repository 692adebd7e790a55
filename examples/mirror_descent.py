"""
Mirror descent: one exponent, one direction
===========================================

Mirror descent with the potential Σ abs(w)^p / p tends to the max-margin direction of the entrywise
ℓp norm. Three exponents keep the same tokens and end in three directions: each run is near its own
solution and stays away from the other two.
"""

import matplotlib.pyplot as plt
import numpy as np

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["sphere"](4, 5, 6, seed=3)
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
exponents = ("1.75", "2", "3")

runs = {
    p: attsvm.train(tokens, optimizer=f"nmirror:{p}", head=arrays["v"], lr=0.1, steps=3000)
    for p in exponents
}
problem = attsvm.Problem.of(tokens, runs["2"].selection[0])
best = {p: attsvm.solve(problem, norm=f"l{p}").require() for p in exponents}
table = np.array(
    [[attsvm.measures.correlation(runs[p], best[q])[-1, 0] for q in exponents] for p in exponents]
)
print("correlation of a run (row) with a solution (column)")
print(table.round(4))

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
axes.imshow(table, cmap="Blues", vmin=table.min() - 0.02, vmax=1)
axes.set_xticks(range(3), [f"ℓ{q} solution" for q in exponents])
axes.set_yticks(range(3), [f"p = {p} run" for p in exponents])
for (i, j), value in np.ndenumerate(table):
    dark = value > table.mean()
    axes.text(j, i, f"{value:.4f}", ha="center", va="center", color="white" if dark else "black")
plt.show()

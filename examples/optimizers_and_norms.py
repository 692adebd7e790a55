"""
Every optimizer has its own margin
==================================

Six optimizers train the same attention on the same tokens. Each curve is the share that a run has
reached of the largest margin possible in the norm that theory names for its optimizer: 1 is the
most that any W can have. The status is how well that limit is established.
"""

import matplotlib.pyplot as plt

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["sphere"](4, 5, 6, seed=3)
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
names = ("gd", "ngd", "nmirror:1.5", "sign", "spectral", "adam")
optimizers = dict(
    zip(names, (1.0, 0.1, 0.1, 0.01, 0.05, 0.01), strict=True)
)  # and their step sizes

figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
for optimizer, lr in optimizers.items():
    path = attsvm.train(tokens, optimizer=optimizer, head=arrays["v"], lr=lr, steps=3000)
    limit = attsvm.predict("weight", optimizer)
    kept = attsvm.Problem.of(tokens, path.selection[0])
    best = attsvm.solve(kept, norm=limit.norm).require()
    share = attsvm.measures.margin_share(path, best)[:, 0]
    print(f"{optimizer:12s} {limit.norm:10s} {limit.status:12s} share {share[-1]:.3f}")
    axes.semilogx(path.steps[1:], share[1:], label=f"{optimizer} in {limit.norm}")
axes.set(xlabel="step", ylabel="share of the largest margin", ylim=(0, 1.02))
axes.legend(loc="upper left")
plt.show()

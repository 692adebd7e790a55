"""
Factored attention finds low rank
=================================

Train W as a whole and the Frobenius norm decides; train keys and queries, W = K Qᵀ, and the nuclear
norm does. Both keep the same tokens of the same eight inputs. The solution in the nuclear norm has
far fewer directions.
"""

import matplotlib.pyplot as plt
import numpy as np

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["sphere"](8, 6, 12, seed=1)
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"])
problem = attsvm.Problem.of(tokens, attsvm.Selection.best(tokens, arrays["v"]))

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for norm, mark in (("frobenius", "o"), ("nuclear", "s")):
    best = attsvm.solve(problem, norm=norm).require()
    values = np.linalg.svd(best.W, compute_uv=False)
    print(f"{norm:10s} rank {best.rank}, least norm {best.upper:.5f}, gap {best.gap:.0e}")
    axes.semilogy(1 + np.arange(len(values)), values / values[0], mark, label=f"least {norm} norm")
axes.set(xlabel="singular value", ylabel="relative to the largest", ylim=(1e-9, 3))
axes.legend()
plt.show()

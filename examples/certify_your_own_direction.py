"""
Certify a direction of your own
===============================

Train attention by gradient descent and certify its direction, with no solver in sight.

One layer, one head: input i is read as s_iᵀ X_i v with s_i = softmax(X_i W z_i), and W is trained
from zero on the loss −Σ_i y_i s_iᵀ X_i v, in steps of length 1. Each gradient is a combination of
the rows (x_iα − x_it) z_iᵀ. Its coefficients, summed over the steps, are multipliers: together
with W they enclose the least norm ever more tightly, and no solver was asked.
"""

import matplotlib.pyplot as plt
import numpy as np

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["path-picture-2"]()
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
best = attsvm.Selection.best(tokens, arrays["v"])
problem = attsvm.Problem.of(tokens, best)
scores = tokens.scores(arrays["v"])
n, others = tokens.n, tokens.T - 1
ahead = scores[best.kept][:, None] - scores[~best.kept].reshape(n, others)  # γ_α − γ_t

W = np.zeros(problem.shape)
multipliers = np.zeros(problem.m)
bounds = {}
print("  steps   attention lost    the least norm is in         gap")
for step in range(1, 10_001):
    # Attention in logarithms, relative to the selected token: it soon falls below any float.
    behind = -problem.margins(W).reshape(n, others)
    whole = np.log1p(np.exp(behind).sum(axis=1, keepdims=True))
    mean = (np.exp(behind - whole) * ahead).sum(axis=1, keepdims=True)
    weight = behind - whole
    slope = (np.exp(weight - weight.max()) * (ahead - mean)).ravel()
    descent = problem.adjoint(slope)
    length = np.linalg.norm(descent)
    W += descent / length
    multipliers += slope / length
    if step in (1, 10, 100, 1000, 10_000):
        own = attsvm.certify(problem, "frobenius", W, multipliers)
        bounds[step] = own.lower, own.upper
        lost = weight.max() / np.log(10)
        print(f"{step:7d}   10^{lost:<12.1f}   [{own.lower:.7f}, {own.upper:.7f}]   {own.gap:.1e}")

solved = attsvm.solve(problem).require()
print(f"{'solver':>7s}   {'':15s}   [{solved.lower:.7f}, {solved.upper:.7f}]   {solved.gap:.1e}")

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.fill_between(
    list(bounds), *zip(*bounds.values(), strict=True), alpha=0.3, label="proved range"
)
axes.axhline(solved.upper, color="black", linestyle="--", label="the solver's value")
axes.set(xlabel="step", ylabel="least norm", xscale="log")
axes.legend()
plt.show()

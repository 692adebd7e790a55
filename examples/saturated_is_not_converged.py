"""
Saturated is not converged
==========================

Attention of 0.999 on one token of every input looks like the end of training. It is not: here the
selection is even certified locally optimal when, forty steps later, one input moves to another
token. Only a proof tells the two plateaus apart.
"""

import matplotlib.pyplot as plt
import numpy as np

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["sphere"](5, 6, 3, seed=4)
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
path, steps, sure, chosen = None, [], [], []
for step in range(0, 1500, 10):
    path = attsvm.train(tokens, optimizer="ngd", head=arrays["v"], lr=0.2, steps=10, start=path)
    logits = np.einsum("ntd,de,ne->nt", tokens.keys, path.at(-1)["W"][0], tokens.queries)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    if step + 10 == 300:
        before = attsvm.outcome(path, tokens, arrays["v"])
    steps.append(step + 10)
    sure.append(weights.max(axis=1).min())
    chosen.append(weights.argmax(axis=1))
moves = [k for k in range(1, len(steps)) if (chosen[k] != chosen[k - 1]).any()]
last = moves[-1]
print(f"step 300: {before.state}, {before.selection}, sure to {before.top_attention:.6f}")
print(f"step {steps[last]}: {chosen[last - 1]} -> {chosen[last]}, the last change")
found = attsvm.outcome(path, tokens, arrays["v"])
print(f"step {steps[-1]}: {found.state}")

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
axes.plot(steps, sure)
axes.axvline(steps[last], color="tab:red", linestyle="--", label="the selection changes")
axes.set(xlabel="step", ylabel="attention of the least sure input", ylim=(0, 1.05))
axes.legend(loc="lower right")
plt.show()

"""
A torch model that is proved
============================

This torch model has converged, and here is the proof.

One layer of attention with one W and a fixed linear head, trained on its full batch by normalized
gradient descent. `capture` reads tokens and W off the model as the optimizer sees them; what then
follows is as for arrays, and the proof is checked again from its own witness.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import attsvm
from attsvm.datasets import EXAMPLES
from attsvm.torch import Attention, NormalizedGD, capture

LR = 0.1
arrays = EXAMPLES["sphere"](5, 5, 3, seed=5)
X, z, y = (torch.as_tensor(arrays[name]) for name in ("X", "z", "y"))

model = Attention(arrays["v"], shape=(3, 3))
optimizer = NormalizedGD(model.parameters(), lr=LR)
for _ in range(1000):
    optimizer.zero_grad()
    loss = torch.nn.functional.softplus(-y * model(X, z)).mean()
    loss.backward()
    optimizer.step()
print(f"the loss is {loss.item():.4f} after 1000 steps")

head = capture(model, (X, z), labels=y)
found = attsvm.outcome(head.W, head.tokens, head.v, optimizer="ngd", lr=LR)
print(f"the selection {found.selection.tolist()}: {found.optimality.message}")
print(f"correlation with its max-margin solution: {found.correlation:.4f}")

proof = attsvm.proof_of_convergence(head.tokens, head.W, head=head.v, optimizer="ngd", lr=LR)
print(proof.require().message)
print(f"after 10^6 more steps 1 − correlation is at most {proof.bound(10**6):.1e}")
again = "holds" if proof.verify().ok else "does not hold"
print(f"this torch model has converged; the proof, checked again, {again}")

more = np.unique(np.geomspace(1, 1e6, 50).astype(int))
figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
axes.loglog(more, proof.bound(more))
axes.set(xlabel="more steps", ylabel="1 − correlation is at most", title="what is proved")
plt.show()

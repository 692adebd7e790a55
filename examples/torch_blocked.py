"""
A torch model that is not proved
================================

This torch model looks converged, is not proved to be, and here is the token that blocks it.

Full-batch training as in torch_proved.py on other tokens. Every input gives all but 10⁻⁸ of its
attention to one token. But at the margin of one of these tokens lies one with a better score: it is
named, and it is the one that attention moves to when training goes on. (By exact steps: torch's own
gradient is soon nothing but the rounding of a softmax at 1.)
"""

import matplotlib.pyplot as plt
import torch

import attsvm
from attsvm.datasets import EXAMPLES
from attsvm.torch import Attention, NormalizedGD, capture

LR = 0.1
arrays = EXAMPLES["sphere"](5, 5, 3, seed=35)
X, z, y = (torch.as_tensor(arrays[name]) for name in ("X", "z", "y"))

model = Attention(arrays["v"], shape=(3, 3))
optimizer = NormalizedGD(model.parameters(), lr=LR)

for _ in range(1000):
    optimizer.zero_grad()
    torch.nn.functional.softplus(-y * model(X, z)).mean().backward()
    optimizer.step()

head = capture(model, (X, z), labels=y)
found = attsvm.outcome(head.W, head.tokens, head.v, optimizer="ngd", lr=LR)
print(
    f"{found.state}: the least attention on a selected token is 1 − {1 - found.top_attention:.0e}"
)

proof = attsvm.proof_of_convergence(head.tokens, head.W, head=head.v, optimizer="ngd", lr=LR)
print(proof.message)
for one in found.optimality.witnesses:
    kept = found.selection[one.input]
    print(
        f"input {one.input}: token {one.token} is a tight neighbour of token {kept} and scores "
        f"{-one.score_gap:.4f} more: it blocks the proof"
    )

exact = attsvm.train(
    head.tokens, head=head.v, optimizer="ngd", lr=LR, steps=1000, init={"W": head.W}
)
for one in found.optimality.witnesses:
    step, token = exact.changed[0, one.input], exact.selection[0, one.input]
    print(f"{step} exact steps later input {one.input} moves to token {token}")

X, W, z = head.tokens.X[4], exact.weights["W"][:, 0], head.tokens.queries[4]
logits = W @ z @ X.T  # (records, tokens)
figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for token in (3, 4):
    axes.plot(exact.steps, logits[:, token] - logits.max(axis=1), label=f"token {token}")
axes.set(xlabel="exact steps after torch stopped", ylabel="logit, relative to the largest")
axes.set_title("input 4 leaves its token")
axes.legend()
plt.show()

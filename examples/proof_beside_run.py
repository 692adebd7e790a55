"""
A proof beside the run it speaks of
===================================

From one matrix, here that of step 1000, a proof bounds the distance to the max-margin direction at
all later steps. The run itself, which the proof has not seen, stays below the bound.
"""

import matplotlib.pyplot as plt

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["sphere"]()
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
v = arrays["v"]
first = attsvm.train(tokens, optimizer="ngd", head=v, lr=0.1, steps=1000)
proof = attsvm.proof_of_convergence(tokens, first.at(-1)["W"][0], head=v, optimizer="ngd", lr=0.1)
print(proof.require().message)

later = attsvm.train(tokens, optimizer="ngd", head=v, lr=0.1, steps=99_000, start=first)
best = attsvm.solve(attsvm.Problem.of(tokens, later.selection[0])).require()
after = later.steps >= 1000
apart = 1 - attsvm.measures.correlation(later, best)[:, 0]
bound = proof.bound(later.steps[after] - 1000)
print(f"after 99 000 more steps: {apart[-1]:.1e}, proved to be at most {bound[-1]:.1e}")

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.loglog(later.steps[1:], apart[1:], label="the run")
axes.loglog(later.steps[after], bound, "--", label="proved at step 1000")
axes.axvline(1000, color="grey", linewidth=0.8)
axes.set(xlabel="step", ylabel="1 − correlation with the limit")
axes.legend()
plt.show()

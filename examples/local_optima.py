"""
Where descent can end
=====================

Where can gradient descent end? Every selection of a small problem, judged.

Five inputs of five tokens: 3125 selections of one token an input. A few cannot be separated by any
W; nearly all others have a tight neighbour with a higher score, which pulls training away. Those
that remain are locally optimal: training started far out and near their max-margin direction stays
with it, while a run on its way there may still leave them.
Only one of them holds the best token of every input, and it is not the one of least norm.
"""

import matplotlib.pyplot as plt

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["sphere"](5, 5, 3, seed=2)
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
found = attsvm.local_optima(tokens, arrays["v"])

print(
    f"{found.total} selections, {len(found.choices)} feasible, {len(found.local)} of them optimal"
)
print("tokens            verdict   least norm       gap   score lead over tight neighbours")
for alpha, verdict in found.local:
    best = verdict.certificate
    print(
        f"{list(alpha)}   {verdict.kind:7s}   {best.upper:10.6f}   {best.gap:.1e}"
        f"   {verdict.score_gap:.4f}"
    )

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for kind, mark in (("local", "o"), ("global", "*")):
    some = [verdict for _, verdict in found.local if verdict.kind == kind]
    norms = [verdict.certificate.upper for verdict in some]
    axes.plot(norms, [v.score_gap for v in some], mark, markersize=10, label=f"{kind}ly optimal")
axes.set(xlabel="least norm", ylabel="score lead over tight neighbours")
axes.legend()
plt.show()

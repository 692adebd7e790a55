"""
A map of what attention can select
==================================

A sweep solves one problem for every seed at every point of a grid, keeps each result, and ends in a
table and a picture. Here: how often a random selection of n inputs with T = 4 tokens can be
separated in d dimensions. From d = max(T − 1, n) on it always can; the line is that bound, and most
selections need far less.
"""

import tempfile

import matplotlib.pyplot as plt

from attsvm.experiments.sweep import load_table, run_sweep, spec_of

spec = spec_of(
    {
        "family": "gaussian",
        "measure": "separable",
        "seeds": 20,
        "group": 20,
        "fixed": {"T": 4},
        "grid": {"n": [2, 4, 6, 8], "d": [1, 2, 3, 4, 5, 6, 8]},
    },
    "separability",
)

with tempfile.TemporaryDirectory() as folder:
    # Killed and run again, this would go on where it was.
    swept = run_sweep(spec, folder, engine="here")
    columns = load_table(folder).columns

bound = [max(3, n) for n in spec.grid["n"]]
print(f"{len(columns['seed'])} instances, {swept.state.failed} failed")
print("  n   bound   share separable at the bound   at half of it")
shares = {}
for n, d in zip(spec.grid["n"], bound, strict=True):
    for k in spec.grid["d"]:
        shares[n, k] = columns["separable"][(columns["n"] == n) & (columns["d"] == k)].mean()
    print(f"{n:3d}   {d:5d}   {shares[n, d]:28.2f}   {shares[n, -(-d // 2)]:13.2f}")

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for n, d in zip(spec.grid["n"], bound, strict=True):
    (line,) = axes.plot(
        spec.grid["d"], [shares[n, k] for k in spec.grid["d"]], "o-", label=f"n = {n}"
    )
    axes.axvline(d, color=line.get_color(), linestyle=":", linewidth=1)
axes.set(xlabel="d", ylabel="share of separable selections", ylim=(-0.03, 1.05))
axes.legend(title="dotted: max(T − 1, n)")
plt.show()

"""
A map of what attention can select
==================================

A sweep solves one problem for every seed at every point of a grid, keeps each result, and ends in a
table and a figure. Here: how often a random selection of n inputs with T = 4 tokens can be
separated in d dimensions. From d = max(T − 1, n) on it always can; the line is that bound, and most
selections need far less.
"""

import tempfile

import matplotlib.pyplot as plt
import pandas

from attsvm.experiments import Study, run_studies

sweep = Study(
    id="mine.separability",
    title="Separable selections",
    statement="How often a random selection can be separated.",
    kind="question",
    source="measured",
    family="gaussian",
    measure="separable",
    seeds=20,
    run={"T": 4},
    grid={"n": [2, 4, 6, 8], "d": [1, 2, 3, 4, 5, 6, 8]},
)

with tempfile.TemporaryDirectory() as folder:
    # Killed and run again, this would go on where it was.
    run_studies([sweep], folder)
    table = pandas.read_csv(f"{folder}/tables/mine.separability.csv")

bound = [max(3, n) for n in sweep.grid["n"]]
print(f"{len(table)} instances")
print("  n   bound   share separable at the bound   at half of it")
shares = {}
for n, d in zip(sweep.grid["n"], bound, strict=True):
    for k in sweep.grid["d"]:
        shares[n, k] = table.separable[(table.n == n) & (table.d == k)].mean()
    print(f"{n:3d}   {d:5d}   {shares[n, d]:28.2f}   {shares[n, -(-d // 2)]:13.2f}")

figure, axes = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for n, d in zip(sweep.grid["n"], bound, strict=True):
    (line,) = axes.plot(
        sweep.grid["d"], [shares[n, k] for k in sweep.grid["d"]], "o-", label=f"n = {n}"
    )
    axes.axvline(d, color=line.get_color(), linestyle=":", linewidth=1)
axes.set(xlabel="d", ylabel="share of separable selections", ylim=(-0.03, 1.05))
axes.legend(title="dotted: max(T − 1, n)")
plt.show()

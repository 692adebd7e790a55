"""
What a head selects
===================

Three heads made by hand: one always chooses the first token, one the token before the query, one a
kind of token that its query asks for, wherever it stands. The table of `attsvm.lens` tells them
apart by their held-out choices, and says how much of its norm each needs, beside matrices with the
same spectrum and subspaces.
"""

import matplotlib.pyplot as plt
import numpy as np

from attsvm.lens import Plan, View, inspect_views

rng = np.random.default_rng(0)
n, T, kinds = 240, 10, 5
place = rng.integers(1, T, n)  # where each query stands
asked = rng.integers(0, kinds, n)  # the kind of token it asks for
kind = (asked[:, None] + rng.integers(1, kinds, (n, T))) % kinds
kind[np.arange(n), rng.integers(0, T, n)] = asked

# Keys know their place and their kind; queries know their place and what they ask for.
noise = 0.1 * rng.standard_normal((n, T, 5))
keys = np.concatenate([np.tile(np.eye(T), (n, 1, 1)), np.eye(kinds)[kind], noise], axis=2)
queries = np.concatenate([np.eye(T)[place], np.eye(kinds)[asked], noise[:, 0]], axis=1)
d = keys.shape[2]

sink, before, content = np.zeros((3, d, d))
sink[0, : T + kinds] = 6.0
before[np.arange(T - 1), np.arange(1, T)] = 6.0
content[np.arange(T, T + kinds), np.arange(T, T + kinds)] = 6.0

special = np.zeros((n, T), dtype=bool)
special[:, 0] = True
views = []
for head, W in enumerate((sink, before, content)):
    views.append(
        View(
            layer=0,
            head=head,
            keys=keys,
            queries=queries,
            key_factor=np.eye(d),
            query_factor=W + 0.05 * rng.standard_normal((d, d)),
            value_factor=rng.standard_normal((4, d)),
            value_shift=np.zeros(4),
            valid=np.ones((n, T), dtype=bool),
            ids=kind,
            special=special,
            positions=place,
            texts=tuple(tuple(f"kind {k}" for k in row) for row in kind),
        )
    )
found = inspect_views(views, name="made by hand", plan=Plan(fit=80, test=160, nuclear_draws=-1))
for row, record in enumerate(found.records):
    print(f"{record['kind']:<11}{found.sentence(row)}")

figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
labels = [record["kind"] for record in found.records]
where = np.arange(3)
for shift, (field, label) in enumerate(
    {
        "rule_agreement": "best one-line rule",
        "mean_query_agreement": "mean query",
        "svm_agreement": "SVM of the choices",
    }.items()
):
    values = [record[field] for record in found.records]
    axes[0].bar(where + 0.27 * (shift - 1), values, width=0.25, label=label)
axes[0].set(ylabel="held-out agreement", xticks=where, xticklabels=labels, ylim=(0, 1.35))
axes[0].legend(loc="upper center", ncols=3, fontsize="x-small")
for k, record in enumerate(found.records):
    band = [record["economy_rotated_low"], record["economy_rotated_high"]]
    axes[1].plot([k, k], band, color="tab:gray", linewidth=8, alpha=0.5)
    axes[1].plot(k, record["economy"], "o", color="tab:blue")
axes[1].set(ylabel="share of the norm that suffices", xticks=where, xticklabels=labels)
axes[1].set_title("head (dot), rotated nulls (bar)", fontsize="small")
plt.show()

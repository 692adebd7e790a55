"""
What does this head select?
===========================

Three heads built to be known: one attends to the first token whatever is asked, one to the token
before the query, one to the token whose word goes with the query's. A rule of one line tells
the choices of the first two on held-out queries, and only a matrix that looks at the words those of
the third. A trained model is inspected in the same way: ``attsvm inspect minilm --out heads``.
"""

import matplotlib.pyplot as plt
import numpy as np

from attsvm.inspection import InspectionConfig, View, inspect_views

# Texts of ten words out of twelve after a mark; a token is its word and its place, one-hot.
rng = np.random.default_rng(0)
n, T, words = 240, 11, 12
ids = np.column_stack([np.zeros(n, int), [1 + rng.permutation(words)[: T - 1] for _ in range(n)]])
keys = np.concatenate([np.eye(words + 1)[ids], np.eye(T)[None].repeat(n, axis=0)], axis=2)
d = keys.shape[2]
positions = rng.integers(2, T, n)

# W is (d, d): which key is wanted by which query.
first, before, partner = 0.05 * rng.standard_normal((3, d, d))
first[0] += 5.0
before[words + 1 :, words + 1 :] += 5.0 * np.eye(T, k=1)
partner[1 : words + 1, 1 : words + 1] += 5.0 * np.roll(np.eye(words), 1, axis=0)
same = {
    "keys": keys,
    "queries": keys[np.arange(n), positions],
    "key_factor": np.eye(d),
    "values": keys,
    "valid": np.ones((n, T), dtype=bool),
    "ids": ids,
    "special": ids == 0,
    "positions": positions,
    "texts": tuple(tuple(str(i) for i in row) for row in ids),
}
heads = enumerate((first, before, partner))
views = [View(layer=0, head=k, query_factor=W, **same) for k, W in heads]
found = inspect_views(views, config=InspectionConfig(fit=80, test=160, draws=3, nuclear_draws=-1))
for head in found.heads:
    print(f"{head.record['kind']}: best rule {head.record['rule']!r}; {head.sentence()}")

fields = {
    "best one-line rule": "rule_agreement",
    "max-margin matrix": "svm_agreement",
    "soft cross-entropy": "soft_cross_entropy_agreement",
}
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for k, (name, field) in enumerate(fields.items()):
    axes.bar(np.arange(3) + 0.27 * (k - 1), [r[field] for r in found.records], 0.25, label=name)
axes.set_xticks(range(3), [r["kind"] for r in found.records])
axes.set_ylabel("held-out agreement")
figure.legend(loc="outside upper center", ncols=3, frameon=False)
plt.show()

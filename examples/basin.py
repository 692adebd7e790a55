"""
The starts that a selection holds
=================================

Turn a proof round: from which prompts does every run keep token 0 and tend to its max-margin
direction? In the plane they can be drawn. Blue: proved to be held. Grey: not proved, though
attention already prefers token 0 there.
"""

import matplotlib.pyplot as plt
import numpy as np

import attsvm

X = [[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]]
tokens = attsvm.Tokens(X)
held = attsvm.basin(tokens, [0], head=[0.2, 0.7], optimizer="ngd", lr=0.1)
print(held)

side = np.linspace(-12, 12, 97)
points = np.array([(x, y) for y in side for x in side])
proved = np.array([held.holds(p) for p in points])
prefers = (points @ np.array(X[0]).T).argmax(axis=1) == 0
print(f"of {len(points)} prompts {prefers.sum()} prefer token 0; {proved.sum()} are proved held")

figure, axes = plt.subplots(figsize=(5.2, 5), layout="constrained")
shade = np.where(proved, 2.0, np.where(prefers, 1.0, 0.0)).reshape(97, 97)
axes.contourf(side, side, shade, levels=[-1, 0.5, 1.5, 3], colors=["white", "#dddddd", "#8fc1e3"])
axes.annotate("", held.direction.ravel() * 8, (0, 0), arrowprops={"width": 1.5, "color": "black"})
axes.set(xlabel="p₁", ylabel="p₂", ylim=(-3, 12), aspect="equal", title="blue: every run is held")
plt.show()

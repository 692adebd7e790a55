"""
One selection, five norms
=========================

Which tokens are kept is one question, by which W another: every norm has its own max-margin
direction, and every way of training its own norm. Here are one input of five tokens in the plane
and the prompts of largest margin that keep token 0. The arrow is the direction, the strip lies
between the kept token and the nearest other one, and the gap bounds how far the
direction is from the best.
"""

import matplotlib.pyplot as plt

import attsvm
from attsvm.plotting import draw

tokens = attsvm.Tokens([[[2.0, 1.0], [1.0, 0.6], [0.5, -0.5], [0.0, 1.5], [-1.0, -1.0]]])
problem = attsvm.Problem.of(tokens, [0])
figure, panels = plt.subplots(1, 5, figsize=(12, 3.2), layout="constrained")
for axes, norm in zip(panels, ("frobenius", "l1", "l1.5", "l3", "max"), strict=True):
    best = attsvm.solve(problem, norm=norm).require()
    print(
        f"{norm:10s} least norm {best.upper:.6f}, gap {best.gap:.1e}, W {best.W.ravel().round(4)}"
    )
    draw(best, axes)
    axes.set_title(norm)
plt.show()

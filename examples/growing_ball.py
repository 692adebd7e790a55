"""
The least loss in a growing ball
================================

Instead of following an optimizer, ask for the least loss among all W of norm at most R. As R grows
the direction tends to the max-margin solution of the best tokens: a theorem, and quickly so.
"""

import matplotlib.pyplot as plt

import attsvm
from attsvm.datasets import EXAMPLES

arrays = EXAMPLES["path-picture-1"]()
tokens = attsvm.Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
path = attsvm.regpath(tokens, head=arrays["v"])
print(path)

figure, (loss, direction) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
loss.semilogx(path.radii, path.loss, "o-")
loss.axhline(path.infimum, color="grey", linestyle="--", label="loss of the best tokens")
loss.set(xlabel="radius R", ylabel="least loss")
loss.legend()
direction.semilogx(path.radii, path.correlation, "o-", label="correlation")
direction.semilogx(path.radii, path.share, "s-", label="margin share")
direction.set(xlabel="radius R", ylabel="against the max-margin solution", ylim=(0, 1.05))
direction.legend(loc="lower right")
plt.show()

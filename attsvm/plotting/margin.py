"""The margin of one input in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attsvm.certificate import Certificate
from attsvm.errors import Unsupported
from attsvm.plotting import style


def draw(certificate: Certificate, ax: Axes | None = None, *, which: int = 0) -> Axes:
    """The Axes (new ones unless given) with input `which` of a planar problem and its margin.

    Lines of equal logit xᵀWz_i are perpendicular to W z_i. The strip runs from the selected token
    ★ to where the logit is 1 less: the other tokens lie beyond it, the ringed (tight) ones on its
    edge.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, attsvm.Selection.of(tokens, [0])))
    >>> ax = draw(best)
    >>> ax.figure.savefig("margin.png")  # doctest: +SKIP
    """
    problem, W = certificate.problem, certificate.W
    if problem.shape[0] != 2 or W is None:
        raise Unsupported(
            f"a picture needs a W and tokens in the plane; d = {problem.shape[0]}, "
            f"status {certificate.status}"
        )
    mine = (problem.query == which).nonzero()[0]
    hi, lo = problem.hi[mine], problem.lo[mine]
    if not len(mine) or (lo < 0).any() or (hi != hi[0]).any():
        raise Unsupported(f"input {which} does not select one token over others: nothing to draw")
    if ax is None:
        ax = Figure().add_subplot()
    keys = np.asarray(problem.keys, dtype=np.float64)
    selected, others, h = keys[hi[0]], keys[lo], W @ problem.queries[which]
    edge = selected - h / (h @ h)  # (selected − edge)ᵀ h = 1
    points = np.vstack([others, selected, selected + h])
    along = np.array([-h[1], h[0]]) / np.linalg.norm(h)
    ends = np.array([[-1.0], [1.0]]) * along * 10 * np.ptp(points, axis=0).max()
    strip = np.vstack([selected + ends, edge + ends[::-1]]).T
    ax.fill(*strip, color=style.MARGIN, alpha=style.STRIP_OPACITY, linewidth=0, zorder=0)
    for start, dash in ((selected, (0, (4, 3))), (edge, "solid")):
        ax.plot(*(start + ends).T, color=style.MARGIN, linewidth=style.LINE, linestyle=dash)
    ax.plot(*others.T, "o", color=style.QUIET, markersize=style.TOKEN, zorder=3)
    ax.plot(*selected, "*", color=style.INK, markersize=style.SELECTED, zorder=6)
    tight: dict[str, Any] = {
        "markersize": style.RING,
        "markerfacecolor": "none",
        "markeredgewidth": 1.4,
    }
    ax.plot(*others[certificate.tight.tight[mine]].T, "o", color=style.MARGIN, **tight)
    ax.quiver(*selected, *h, angles="xy", scale_units="xy", scale=1, color=style.MARGIN, zorder=4)
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.15 * (high - low).max()
    (left, down), (right, up) = low - pad, high + pad
    ax.set(xlim=(left, right), ylim=(down, up), xticks=[], yticks=[])
    ax.set_aspect("equal")
    return ax

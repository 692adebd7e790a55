"""basin(): from which starts on every run is held by a selection, proved.

Cones {corr(W, W^mm) ≥ c, ‖W‖ ≥ R(c)} are kept by all steps of length at most lr; R(c) is the least
for each of a grid of angles. A run that starts in one of them keeps the selection for ever and
tends to the direction of W^mm. What lies outside is not claimed to leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, detached, numbers
from attsvm._utils.expected import positive
from attsvm._utils.result import Summary, Table, draw
from attsvm.errors import NotConverged, Unsupported
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence import theorems
from attsvm.theory.convergence.proof import unsupported
from attsvm.theory.convergence.prover import Prover, prover, whole_log2
from attsvm.theory.convergence.rows import Rows
from attsvm.theory.convergence.theorems import ConeAxis
from attsvm.training.losses import Loss
from attsvm.training.optimizers import RuleLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The grid of angles, and how finely norms are found.
_ANGLES = np.concatenate([np.geomspace(1e-3, 0.2, 25), np.linspace(0.22, 1.5, 33)])
_HALVINGS = 60


@dataclass(frozen=True, eq=False, repr=False)
class Basin(Table):
    """Cones that hold every run started in them.

    selection (n,), direction W^mm (d, dq) and its norm; angles (g,) in radians and the least norms
    (g,) of the cones, inf where there is none. lr: the longest step.
    """

    selection: Ints
    direction: Floats
    norm: float
    angles: Floats
    norms: Floats
    optimizer: str
    lr: float
    _inside: Callable[[Floats], bool]

    @np.errstate(all="ignore")
    def holds(self, W: Any) -> bool:
        """Whether W (d, dq), or a prompt (d,), lies in a cone, rounding included."""
        array = numbers(detached(W), "W").astype(np.float64, copy=False)
        if array.ndim == 1 and self.direction.shape[1] == 1:
            array = array[:, None]
        if array.shape != self.direction.shape:
            raise Unsupported(f"W has shape {array.shape}; this basin is of {self.direction.shape}")
        return bool(np.isfinite(array).all()) and self._inside(array)

    def least_norm(self, angle: float) -> float:
        """The norm from which on every start within this angle of W^mm is held; inf without one."""
        wide = self.norms[self.angles >= positive(angle, "angle", zero=True)]
        return float(wide.min(initial=np.inf))

    def columns(self) -> dict[str, Any]:
        """Angles in degrees, and the norms from which on a start within each is held."""
        least = [self.least_norm(float(angle)) for angle in self.angles]
        return {"angle": np.degrees(self.angles), "least_norm": np.array(least)}

    def plot(self, *, ax: Any = None, style: str = "screen") -> Figure:
        """The least norm at which a start is held, over its angle to the max-margin direction.

        ax: axes to draw into, in their own style. style: "screen", or "paper" for a column.
        """
        return draw("basin", self, ax=ax, style=style)

    def _card(self) -> Summary:
        some = np.isfinite(self.norms)
        if some.any():
            widest = np.degrees(self.angles[some].max())
            said = (
                f"cones up to {widest:.3g}° wide, from norm {self.norms[some].min():.3g} on; "
                f"{self.optimizer}, steps up to {self.lr:g}"
            )
        else:
            said = "no cone"
        least = self.columns()["least_norm"]
        # Of angles with one norm the widest says it all.
        widest_of = [k for k in some.nonzero()[0] if k + 1 == len(least) or least[k + 1] > least[k]]
        held = {name: column[widest_of] for name, column in self.columns().items()}
        facts = {"selection": self.selection, "norm of W^mm": self.norm}
        return Summary("Basin", said, facts, held, brief=True)


@np.errstate(all="ignore")
def basin(
    tokens: Tokens,
    selection: Kept,
    *,
    head: Any,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
) -> Basin:
    """Certify the basin of a selection: from which norm and angle on every start is held.

    Parameters
    ----------
    tokens : Tokens
    selection : Selection or array (n,)
        The kept token of each input.
    head : array (d,) or Head
        The linear prediction head.
    optimizer : str or Optimizer, default: "ngd"
        gd or ngd.
    lr : float, default: 0.1
        The longest step.
    loss : str or Loss, default: "logistic"

    Returns
    -------
    Basin

    Raises
    ------
    NotConverged
        Where no start is held: the selection is not locally optimal, or its tight rows cannot be
        verified.

    Examples
    --------
    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> held = attsvm.basin(tokens, [0], head=[0.2, 0.7])
    >>> held.holds([0.0, 100.0]), held.holds([100.0, 0.0])
    (True, False)
    """
    made = prover(tokens, head=head, optimizer=optimizer, lr=lr, loss=loss)
    if made.p != 2:
        raise unsupported(f"the cones of optimizer {made.optimizer!r}")
    alpha = Selection.of(tokens, selection).indices
    at = made.geometry(alpha)
    if at.axis is None or at.rows is None:
        reason = "nothing is known" if at.blocked is None else at.blocked.reason
        raise NotConverged(f"no start is proved to be held: {reason}")
    rows, axis, unit = at.rows, at.axis, at.rows.unit
    cosines = np.cos(_ANGLES) * (1 - 1e-15)
    norms = _least_norms(made, rows, axis, cosines)

    def inside(W: Floats) -> bool:
        c, R = axis.locate(np.ldexp(W, -whole_log2(unit)))
        return bool(((cosines <= c) & (norms <= R)).any())

    return Basin(
        alpha,
        axis.W.mid * unit,
        float(axis.N.mid) * unit,
        _ANGLES,
        norms * unit,
        made.optimizer,
        made.lr,
        inside,
    )


def _least_norms(made: Prover, rows: Rows, axis: ConeAxis, c: Floats) -> Floats:
    """The least norm of each cone up to two per mille, inf beyond 1e12 times ‖W^mm‖."""
    size = made.steps(rows).size

    def fits(R: Floats) -> Bools:
        return theorems.measure_cone(rows, axis, R, c, size, plain=made.plain).fits

    low = np.full(len(c), np.log(float(axis.N.mid) * 1e-3))
    high = np.full(len(c), np.log(float(axis.N.mid) * 1e12))
    never = ~fits(np.exp(high))
    for _ in range(_HALVINGS):
        if ((high - low)[~never] <= 2e-3).all():
            break
        middle = 0.5 * (low + high)
        found = fits(np.exp(middle))
        high, low = np.where(found, middle, high), np.where(found, low, middle)
    norms = np.exp(high)
    return np.where(never | ~fits(norms), np.inf, norms)

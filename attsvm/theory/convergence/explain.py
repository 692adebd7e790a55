"""Why there is no proof at a W: a row without margin, a row that pulls, a step, an inequality; and
about which norm would do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.theory.convergence import cone, tube
from attsvm.theory.convergence import decomposition as standing
from attsvm.theory.convergence.active import named
from attsvm.theory.convergence.proof import Blocked
from attsvm.theory.convergence.rows import Rows

if TYPE_CHECKING:
    from attsvm.theory.convergence.prover import Ground, Prover


def blocked_by(judge: Prover, W: Floats, at: Ground) -> Blocked:
    """What blocks a proof at W, which is scaled to the rows."""
    if at.rows is None or at.axis is None:
        return at.blocked or Blocked("no inequality holds")
    if at.frame is None:
        why = Blocked("no active set is known") if at.blocked is None else at.blocked
        said = f"{why.reason}, so that there is no tube; and the cone does not hold W yet"
        return Blocked(said, why.row, _cone_norm(judge, at.rows, at.axis, W) * at.rows.unit)
    frame, rows = at.frame, at.rows
    steps = judge.steps(rows)
    here = standing.place(frame, W, 0.0 if judge.plain else steps.size)
    norm = _tube_norm(judge, frame, W) * rows.unit
    across = np.maximum(frame.active.across.hi, 1e-300)
    top = (frame.active.slack.lo + 1) * float(here.rho.lo) + here.at.lo
    reach = top / across
    D0 = float(here.distance.hi)
    k = int(reach.argmin())
    if not np.isfinite(D0):
        return Blocked("W is too large: the square of its norm leaves the range of floats")
    if reach[k] <= 0:
        row = (int(rows.inputs[k]), int(rows.places[k]))
        return Blocked(f"attention is not settled: {named(rows, k)} has no margin yet", row, norm)
    if not reach[k] > D0:
        return Blocked(
            f"{named(rows, k)} may lose its margin: W is {D0 * rows.unit:.3g} away from its "
            f"limit ray, and the margin is known within {reach[k] * rows.unit:.3g} of it",
            (int(rows.inputs[k]), int(rows.places[k])),
            norm,
        )
    D = tube.radii(frame, here)
    found = tube.measure(frame, here, steps, D, "A")
    level = frame.active.slack.lo * float(here.rho.lo) + here.at.lo
    level = level - frame.active.across.hi * D0
    bad = frame.bad
    settled = found.beta < 1
    if settled.any() and not (found.omega > 0)[settled].any():
        most = 1 / (float(frame.active.N.hi) * frame.smooth) * rows.unit
        size = float(found.h.min()) * rows.unit
        step = f"a step of {size:.3g}" if judge.plain else f"the step {judge.lr:.3g}"
        return Blocked(
            f"{step} is too long: the tube needs less than about {most:.3g}",
            None,
            norm,
        )
    if bad.any():
        k = int(np.where(bad, level, np.inf).argmin())
        return Blocked(
            f"{named(rows, k)} scores more than the kept token and still pulls too strongly "
            f"(its slack is {frame.active.slack.mid[k]:.3g})",
            (int(rows.inputs[k]), int(rows.places[k])),
            norm,
        )
    need = np.where((found.beta < 1) & (found.omega > 0), found.need / found.D**2, np.inf)
    j = int(np.nan_to_num(need, nan=np.inf).argmin())
    if not np.isfinite(need[j]):
        return Blocked("attention is not settled enough: its curvature outweighs", None, norm)
    return Blocked(
        f"the tube needs D² ≥ {found.need[j] * rows.unit**2:.3g} where D² = "
        f"{found.D[j] ** 2 * rows.unit**2:.3g}",
        None,
        norm,
    )


def _tube_norm(judge: Prover, frame: standing.Frame, W: Floats) -> float:
    """About the norm at which W, moved along the limit ray, has a tube."""
    steps = judge.steps(frame.rows)

    def proves(M: Floats) -> bool:
        here = standing.place(frame, M, 0.0 if judge.plain else steps.size)
        D = tube.radii(frame, here)
        return len(D) > 0 and tube.widest(frame, here, steps, D[::4]) is not None

    return _norm(proves, W, frame.rows.combined(frame.active.lam, frame.active.C).mid)


def _cone_norm(judge: Prover, rows: Rows, axis: cone.Axis, W: Floats) -> float:
    """About the norm at which W, moved along the axis, is in a cone that is kept."""
    size = judge.steps(rows).size

    def proves(M: Floats) -> bool:
        c, R = cone.corr(axis, M)
        cosines = cone.cosines(c)
        if not len(cosines):
            return False
        return bool(cone.measure_cone(rows, axis, R, cosines, size, plain=judge.plain).fits.any())

    return _norm(proves, W, axis.W.mid)


def _norm(proves: Callable[[Floats], bool], W: Floats, ray: Floats) -> float:
    """About the least ‖W + s ray‖ at which there is a proof; nan if none is found."""
    low, high = 0.0, math.inf
    step = max(float(np.linalg.norm(W) / np.linalg.norm(ray)), 1.0)
    for _ in range(30):
        tried = low + step if high == math.inf else 0.5 * (low + high)
        if proves(W + tried * ray):
            high = tried
        else:
            low, step = tried, step * 2
        if high < math.inf and high - low <= 0.02 * high:
            break
    return float(np.linalg.norm(W + high * ray)) if high < math.inf else math.nan

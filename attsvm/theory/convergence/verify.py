"""Rechecking a proof of convergence from tokens, head, W and witness, trusting none of its claims.

The theorem's inequality is evaluated again, in intervals, with the tight rows, the radius or the
cosine that the proof names; and every constant that it prints must be the one found. The recheck
that shares no code with this package is `tools/check_proof.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.interval import Interval
from attsvm._utils.result import Result, Summary
from attsvm.errors import AttsvmError
from attsvm.theory.convergence import theorems
from attsvm.theory.convergence.power_cone import PowerAxis
from attsvm.theory.convergence.proof import ConvergenceProof
from attsvm.theory.convergence.prover import Prover, whole_log2
from attsvm.theory.convergence.rows import NotVerified, Rows, TokenPull, verify_active
from attsvm.theory.convergence.theorems import (
    ConeAxis,
    CoveredSteps,
    TubeFrame,
    float_steps,
    locate,
    measure_level,
)

# Constants are functions of the witness; the order of sums may differ from machine to machine.
_SAME = 1e-6
# These are of the size of rounding errors where the axis is the solution.
_ROUNDING = ("over", "tilt", "wide")
# How near to the solution the direction must be, where that is known, and where it is bounded.
_NEAR, _NEAR_AXIS = 1e-8, 1e-3


@dataclass(frozen=True, repr=False)
class Recheck(Result):
    """Whether the claims of a proof hold, and if not why not."""

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok

    def _card(self) -> Summary:
        return Summary(
            "Recheck", "holds" if self.ok else f"does not hold: {self.reason}", brief=True
        )


@np.errstate(all="ignore")
def recheck(proof: ConvergenceProof) -> Recheck:
    """The verdict on a proof; one that claims nothing is not confirmed."""
    if proof.theorem is None:
        return Recheck(False, "nothing is claimed to be proved")
    if not 0 < proof.lr < np.inf:
        return Recheck(False, f"no theorem covers the step {proof.lr}")
    try:
        return _verified(proof._prover(), proof)
    except (NotVerified, AttsvmError, KeyError, ValueError, TypeError, IndexError) as error:
        return Recheck(False, f"the witness cannot be used ({error})")


def _verified(judge: Prover, proof: ConvergenceProof) -> Recheck:
    alpha = np.asarray(proof.selection, dtype=np.int64)
    if not proof.tokens.present()[np.arange(proof.tokens.n), alpha].all():
        return Recheck(False, "a selected token is not there")
    if not judge.lr <= proof.longest_step < np.inf:
        return Recheck(False, f"longest_step is {proof.longest_step}, the step itself {judge.lr}")
    if proof.theorem != "tube" and proof.float_steps:
        return Recheck(False, f"float_steps is {proof.float_steps}: no rounding is covered")
    rows = judge.rows_for(alpha)
    W = np.ldexp(np.asarray(proof.W, dtype=np.float64), -whole_log2(rows.unit))
    if not np.isfinite(W).all():
        return Recheck(False, "W is not finite")
    if proof.theorem == ("cone" if judge.p == 2 else "power cone"):
        return _cone(proof, judge, rows, W)
    if proof.theorem == "tube" and judge.p == 2:
        return _tube(proof, judge, rows, W)
    if proof.theorem == "level" and judge.plain and judge.p == 2:
        return _level(proof, rows, W)
    return Recheck(
        False, f"there is no theorem {proof.theorem!r} for optimizer {proof.optimizer!r}"
    )


def _tube(proof: ConvergenceProof, judge: Prover, rows: Rows, W: Floats) -> Recheck:
    witness, unit = proof.witness, rows.unit
    frame = TubeFrame(rows, verify_active(rows, rows.index(witness["tight"]), settle=False))
    shift = np.asarray(witness["shift"], dtype=np.float64) / unit**2
    D = np.array([float(witness["D"]) / unit])
    errors = float(witness["errors"]) / unit
    if not (np.isfinite(shift).all() and np.isfinite(D).all() and 0 <= errors < np.inf):
        return Recheck(False, "the witness is not finite")
    here = locate(frame, W, 0.0, (rows.index(witness["shifted"]), shift))
    sizes = [judge.lr, proof.longest_step]
    for size in sizes:
        steps = CoveredSteps(size / unit ** (2 if judge.plain else 1), judge.plain, errors)
        found = theorems.measure_tube(frame, here, steps, D, str(witness["mode"]))
        if not D[0] >= here.distance.hi or not bool(found.fits[0]):
            return Recheck(False, f"the inequality of the tube does not hold for step {size:.6g}")
        if size == judge.lr:
            again = theorems.tube_claims(frame, here, steps, found, 0)
            count = float_steps(judge.tokens, frame, W, float(found.h[0]), errors)
            if proof.float_steps > count * (1 + _SAME) + 1:
                said = f"float_steps is {proof.float_steps}, the rounding allows {count}"
                return Recheck(False, said)
            if wrong := _differs(proof, again):
                return Recheck(False, wrong)
    exact = frame.rows.combined(frame.active.lam, frame.active.C)
    return _near_solution(proof, exact.mid, unit)


def _near_solution(
    proof: ConvergenceProof, solution: Floats, unit: float, wide: float = 1.0
) -> Recheck:
    """The printed direction is within a share of the solution's norm from it; wide: of an axis."""
    if proof.direction is None or proof.direction.shape != solution.shape:
        return Recheck(False, "the proof has no direction of the right shape")
    scaled = solution * unit
    far = float(np.linalg.norm(proof.direction - scaled) / np.linalg.norm(scaled))
    far += np.sqrt(max(1 - 1 / wide**2, 0.0))
    if not far <= (_NEAR if wide == 1 else _NEAR_AXIS):
        return Recheck(False, f"the direction is {far:.1e} away from the solution")
    return Recheck(True)


def _axis(proof: ConvergenceProof, rows: Rows, p: float = 2.0) -> Any:
    """The axis that the witness names, of the cone or of the power cone; ValueError where it is
    none."""
    witness = proof.witness
    index = rows.index(witness["tight"])
    if p == 2 and bool(witness["exact"]):
        return ConeAxis.exact(rows, verify_active(rows, index, settle=False))
    mu = np.zeros(rows.count)
    mu[index] = np.asarray(witness["mu"], dtype=np.float64)
    if not ((mu >= 0).all() and np.isfinite(mu).all()):
        raise ValueError("a multiplier is negative or not finite")
    W = np.ldexp(np.asarray(witness["axis"], dtype=np.float64), -whole_log2(rows.unit))
    axis = ConeAxis.near(rows, W, mu) if p == 2 else PowerAxis.near(rows, W, mu, p)
    if axis is None:
        raise ValueError("the axis has a margin that is not positive")
    return axis


def _cone(proof: ConvergenceProof, judge: Prover, rows: Rows, W: Floats) -> Recheck:
    witness, unit = proof.witness, rows.unit
    axis = _axis(proof, rows, judge.p)
    c, R = axis.locate(W)
    at, radius = float(witness[axis.key]), float(witness["R"]) / unit
    if not (axis.holds(at, c) and 0 < radius <= R * (1 + 2.0**-50)):
        said = f"W is not in the cone: {axis.key} {c:.6g}, norm {R * unit:.6g}"
        return Recheck(False, said)

    def again(lr: float) -> dict[str, float] | None:
        found = axis.measure(rows, min(radius, R), np.array([at]), lr, plain=judge.plain)
        return axis.claims(found, 0, radius, c, unit) if bool(found.fits[0]) else None

    if wrong := _for_both(proof, axis.theorem, again):
        return Recheck(False, wrong)
    wide = axis.wide if judge.p == 2 else 1.0
    return _near_solution(proof, Interval.of(axis.W).mid, unit, wide)


def _level(proof: ConvergenceProof, rows: Rows, W: Floats) -> Recheck:
    pull = rows.pull
    if not isinstance(pull, TokenPull):
        return Recheck(False, "the loss level is for tokens")
    margins = rows.margins(W)[pull.group]

    def again(size: float) -> dict[str, float] | None:
        step = size if size == proof.lr else size * (1 - 1e-9)
        found = measure_level(proof.tokens, pull, margins, step)
        return found.claims if found is not None and found.fits else None

    if wrong := _for_both(proof, "loss level", again):
        return Recheck(False, wrong)
    axis = _axis(proof, rows)
    return _near_solution(proof, axis.W.mid, rows.unit, axis.wide)


def _for_both(
    proof: ConvergenceProof, what: str, again: Callable[[float], dict[str, float] | None]
) -> str:
    """What is wrong for the step itself or for the longest one; empty where both are covered.

    again: the constants for steps of a size, None where the inequality does not hold.
    """
    for size in (proof.lr, proof.longest_step):
        constants = again(size)
        if constants is None:
            return f"the inequality of the {what} does not hold for step {size:.6g}"
        if size == proof.lr and (wrong := _differs(proof, constants)):
            return wrong
    return ""


def _differs(proof: ConvergenceProof, again: dict[str, float]) -> str:
    """The first constant that is not the one found, in words; empty where all agree."""
    if set(proof.constants) != set(again):
        return "the constants are not those of the theorem"
    for name, value in again.items():
        claimed = float(proof.constants[name])
        if name == "growth" and 0 <= claimed <= value:  # steps may be shorter than lr
            continue
        size = 1.0 if name in _ROUNDING else abs(value)
        if not abs(claimed - value) <= _SAME * max(size, 1e-290):
            return f"{name} is said to be {claimed!r}, and is {value!r}"
    return ""

"""Proofs for mirror descent: from a W to the power cone, or to what blocks it; and which prover
serves which optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import AttsvmError
from attsvm.norms.entrywise import power_norm
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence import power
from attsvm.theory.convergence.active import named, not_good
from attsvm.theory.convergence.power_axis import PowerAxis
from attsvm.theory.convergence.proof import Blocked, ConvergenceProof, unsupported
from attsvm.theory.convergence.prover import Found, Ground, Prover, whole_log2
from attsvm.theory.convergence.rows import Rows
from attsvm.training.losses import Loss
from attsvm.training.optimizers import Optimizer, is_listed

# Multipliers of rows that score more, below this share of all, are left out of μ.
_SMALL = 1e-6
# Exponents whose constants are well known in floats.
POWERS = (1.001, 1000.0)


@dataclass(frozen=True, eq=False)
class PowerGround:
    """What a selection stands on under mirror descent: rows and axis, or what is in the way."""

    rows: Rows | None
    axis: PowerAxis | None
    blocked: Blocked | None
    direction: Floats | None


@dataclass(frozen=True, eq=False)
class PowerProver(Prover):
    """Proofs for W of one instance under mirror descent with exponent p.

    plain: the step in the dual variable is lr times the gradient; otherwise it has dual norm lr.
    """

    p: float = 2.0
    seen: dict[bytes, PowerGround] = field(default_factory=dict)

    def power_ground(self, alpha: Ints) -> PowerGround:
        """Rows and axis of a selection, computed once."""
        key = alpha.tobytes()
        if key not in self.seen:
            self.seen[key] = self._power_ground(alpha)
        return self.seen[key]

    def _power_ground(self, alpha: Ints) -> PowerGround:
        try:
            rows = self.rows_for(alpha)
            if not rows.count:
                return PowerGround(rows, None, Blocked("there is no other token"), None)
            certificate = self.certificate_for(alpha, f"l{self.p:.12g}")
        except AttsvmError as error:
            return PowerGround(None, None, Blocked(str(error)), None)
        if certificate.W is None:
            return PowerGround(rows, None, Blocked(certificate.message), None)
        lam = self.multipliers_for(rows, certificate)
        lam = np.where(lam > 1e-14 * lam.max(initial=0.0), lam, 0.0)
        wrong = ~(rows.pull.limit.lo > 0)
        lam = np.where(wrong & (lam < _SMALL * lam.sum()), 0.0, lam)
        if (lam[wrong] > 0).any():
            k = int(np.where(wrong, lam, -1.0).argmax())
            blocked = Blocked(not_good(rows, k), (int(rows.inputs[k]), int(rows.places[k])))
            return PowerGround(rows, None, blocked, certificate.W)
        W = np.ldexp(certificate.W, -whole_log2(rows.unit))
        axis = PowerAxis.near(rows, W, lam, self.p)
        inside = None if axis is not None else Blocked(certificate.message)
        return PowerGround(rows, axis, inside, certificate.W)

    def power_steps(self, rows: Rows, lr: float) -> power.PowerSteps:
        """The steps of size lr."""
        return power.PowerSteps(lr, self.plain, rows.unit)

    def ground(self, alpha: Ints) -> Ground:
        """What tube and cone stand on; they are no sets of mirror descent. Raises Unsupported."""
        raise unsupported(f"the cones and tubes of optimizer {self.optimizer!r}")

    @np.errstate(all="ignore")  # what overflows is not proved
    def prove(self, W: Floats, *, explain: bool = True) -> ConvergenceProof:
        """The proof for W (d, dq), or what blocks it; in one word unless `explain` is set."""
        alpha = self.selected(W)
        at = self.power_ground(alpha)
        stand = Ground(at.rows, None, None, None, at.blocked, at.direction)
        if at.rows is None or at.axis is None:
            return self._made(W, alpha, stand, Found(blocked=at.blocked))
        rows, axis = at.rows, at.axis
        scaled = np.ldexp(W, -whole_log2(rows.unit))
        u, R = power.place(axis, scaled)
        tried = power.widths(u)
        if not len(tried) or not R > 0:
            said = f"W is too far from the ℓ{self.p:g} max-margin direction: 1 − c_p is {u:.3g}"
            norm = self._enough(at, W) if explain else math.nan
            return self._made(W, alpha, stand, Found(blocked=Blocked(said, None, norm)))
        found = power.measure_power(rows, axis, R, tried, self.power_steps(rows, self.lr))
        if not found.fits.any():
            why = self._why(at, found, W) if explain else Blocked("no inequality holds")
            return self._made(W, alpha, stand, Found(blocked=why))
        j = int(np.where(found.fits, found.slope - found.turn, -np.inf).argmax())
        held = axis.mu.hi > 0
        names = np.stack([rows.inputs[held], rows.places[held]], axis=1).astype(np.int64)
        witness: dict[str, Any] = {
            "tight": names,
            "mu": axis.mu.mid[held],
            "axis": np.ldexp(axis.W, whole_log2(rows.unit)),
            "u": np.float64(found.u[j]),
            "R": np.float64(R * rows.unit),
        }
        constants = power.claims(axis, found, j, R, u, rows.unit)
        longest = self._longest_power(rows, axis, R, found.u[j : j + 1])
        made = Found("power cone", constants, witness, longest)
        return self._made(W, alpha, stand, made)

    def _longest_power(self, rows: Rows, axis: PowerAxis, R: float, u: Floats) -> float:
        """The longest step with which the same cone is proved, found by doubling and halving."""
        low, high = self.lr, math.inf
        for _ in range(20):
            tried = low * 2 if high == math.inf else 0.5 * (low + high)
            steps = self.power_steps(rows, tried)
            if bool(power.measure_power(rows, axis, R, u, steps).fits[0]):
                low = tried
            else:
                high = tried
        return low

    def _why(self, at: PowerGround, found: power.PowerCone, W: Floats) -> Blocked:
        """Why no cone holds: a row without margin, a row that scores more, or the inequality."""
        rows: Any = at.rows
        axis: Any = at.axis
        norm = self._enough(at, W)
        inward = found.slope >= found.turn
        # The narrowest cone in which the steps turn inward, or else the narrowest.
        j = int(inward.argmax())
        if found.pulls[j].any():
            k = int(np.where(found.pulls[j], axis.slack.lo, np.inf).argmin())
            said = f"{named(rows, k)} scores more than the kept token and may pull too strongly"
            if rows.pull.limit.lo[k] > 0:
                said = f"the margins are too small to tell which way {named(rows, k)} pulls"
            said += f" (its slack is {axis.slack.mid[k]:.3g})"
            return Blocked(said, (int(rows.inputs[k]), int(rows.places[k])), norm)
        if not inward.any():
            j = int(np.nan_to_num(found.slope - found.turn, nan=-np.inf).argmax())
            return Blocked(
                f"the cone needs slope ≥ turn, and has at best {found.slope[j]:.3g} and "
                f"{found.turn[j]:.3g}: the step {self.lr:.3g} is too long, or the norm too small",
                None,
                norm,
            )
        return Blocked(
            f"a margin may vanish in the cone 1 − c_p ≤ {found.u[j]:.3g}, the narrowest in which "
            "steps turn inward",
            None,
            norm,
        )

    def _enough(self, at: PowerGround, W: Floats) -> float:
        """About the ℓp norm at which W, moved along the limit's ray, is proved; nan if none is."""
        rows: Any = at.rows
        axis: Any = at.axis
        scaled = np.ldexp(W, -whole_log2(rows.unit))
        steps = self.power_steps(rows, self.lr)
        start = max(float(power_norm(scaled, self.p)) / float(axis.N.mid), 1.0)
        low, high, step = 0.0, math.inf, start
        for _ in range(40):
            tried = low + step if high == math.inf else 0.5 * (low + high)
            u, R = power.place(axis, scaled + tried * axis.W)
            widths = power.widths(u)[::3]
            if len(widths) and power.measure_power(rows, axis, R, widths, steps).fits.any():
                high = tried
            else:
                low, step = tried, step * 2
            if high < math.inf and high - low <= 0.05 * high:
                break
        if high == math.inf:
            return math.nan
        return float(power_norm(scaled + high * axis.W, self.p)) * float(rows.unit)


def covered_steps(optimizer: Optimizer) -> tuple[float, bool]:
    """(P, plain) of an optimizer whose steps are those that the theorems are about: lr times the
    gradient (plain) or of dual length lr, in the dual variable of ‖x‖_P^P/P.

    Raises Unsupported for every other optimizer: a ridge or decay changes the steps, and what an
    optimizer of one's own declares of its steps is not proved.
    """
    declared = optimizer.dual if optimizer.fused is None else (2.0, optimizer.fused == "gd")
    if declared is None or optimizer.ridge or not is_listed(optimizer):
        raise unsupported(f"optimizer {optimizer.name!r}")
    if not POWERS[0] <= declared[0] <= POWERS[1]:
        raise unsupported(f"optimizer {optimizer.name!r}, P outside {POWERS[0]:g} to {POWERS[1]:g}")
    return declared


def prover_for(
    optimizer: Optimizer,
    tokens: Tokens,
    head: Floats,
    loss: Loss,
    lr: float,
    *,
    steady: bool = True,
) -> Prover:
    """The Prover of an optimizer; raises Unsupported where no theorem covers it."""
    p, plain = covered_steps(optimizer)
    if p == 2:
        return Prover(tokens, head, loss, optimizer.name, lr, plain, steady)
    return PowerProver(tokens, head, loss, optimizer.name, lr, plain, steady, p=p)

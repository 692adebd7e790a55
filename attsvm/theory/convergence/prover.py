"""Prover: what is common to all W of one instance and one way of training, and a proof for each W.

Rows and active sets depend on the selection alone and are kept; a proof for another W of the same
run costs a few milliseconds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate
from attsvm.errors import AttsvmError
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import Certificates, solve
from attsvm.theory.convergence import cone, tube
from attsvm.theory.convergence import decomposition as standing
from attsvm.theory.convergence.active import Active, NotVerified, not_good, verified
from attsvm.theory.convergence.explain import blocked_by
from attsvm.theory.convergence.level import measure_level
from attsvm.theory.convergence.proof import Blocked, ConvergenceProof, Theorem
from attsvm.theory.convergence.rounding import drift_of, float_steps
from attsvm.theory.convergence.rows import Rows, rows_of
from attsvm.training.losses.loss import Loss

# Rounding errors of this many steps are asked to be covered where the proof has room for them.
COVERED = 1e6
# Beyond this many products of rows with tight rows a proof would take minutes and gigabytes.
LARGEST = 8e6
# The share of the largest multiplier from which a row counts as a tight one, at first.
_ACTIVE = 1e-7


@dataclass(frozen=True, eq=False)
class Ground:
    """What a selection stands on: its rows, the verified active set or why there is none, and the
    axis of the cone (None where nothing feasible is known)."""

    rows: Rows | None
    active: Active | None
    frame: standing.Frame | None
    axis: cone.Axis | None
    blocked: Blocked | None
    direction: Floats | None


class Found(NamedTuple):
    """What was found for one W, with the names that a ConvergenceProof has for it."""

    theorem: Theorem | None = None
    constants: Mapping[str, float] = {}
    witness: Mapping[str, Any] = {}
    longest: float = math.nan
    covered: int = 0
    blocked: Blocked | None = None


@dataclass(frozen=True, eq=False)
class Prover:
    """Proofs for W of one instance: tokens, head v (d,), loss, and the steps.

    plain: steps are lr times the gradient; otherwise each has length at most lr, and `steady` says
    that each has just this length. solved: certificates of the tokens' selections, where some are
    known already.
    """

    tokens: Tokens
    head: Floats
    loss: Loss
    optimizer: str
    lr: float
    plain: bool
    steady: bool = True
    known: dict[bytes, Ground] = field(default_factory=dict)
    solved: Certificates | None = None

    def selected(self, W: Floats) -> Ints:
        """The token of each input with the largest logit at W."""
        tokens = self.tokens
        keys = np.asarray(tokens.keys, dtype=np.float64)
        source = np.arange(tokens.n) if tokens.source is None else tokens.source
        logits = np.einsum("ntd,nd->nt", keys[source], tokens.queries @ W.T)
        found: Ints = np.where(tokens.present(), logits, -np.inf).argmax(axis=1)
        return found

    def rows_for(self, alpha: Ints) -> Rows:
        """The rows of a selection."""
        return rows_of(self.tokens, alpha, self.head, self.loss)

    def problem_for(self, alpha: Ints) -> Problem:
        """The max-margin problem of a selection."""
        return Problem.of(self.tokens, Selection.of(self.tokens, alpha))

    def certificate_for(self, alpha: Ints, norm: str = "frobenius") -> Certificate:
        """The certificate of a selection's problem; a solve that stops early does not warn."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.solved is not None:
                return self.solved.of(alpha, norm)
            return solve(self.problem_for(alpha), norm)

    def multipliers_for(self, rows: Rows, certificate: Certificate) -> Floats:
        """The multiplier of each row in a certificate of the selection's problem, (K,)."""
        return rows.gathered(certificate.problem.rows, certificate.multipliers)

    @np.errstate(all="ignore")
    def ground(self, alpha: Ints) -> Ground:
        """Rows, active set and axis of a selection, computed once."""
        key = alpha.tobytes()
        if key not in self.known:
            self.known[key] = self._ground(alpha)
        return self.known[key]

    def _ground(self, alpha: Ints) -> Ground:
        try:
            rows = self.rows_for(alpha)
        except AttsvmError as error:
            return Ground(None, None, None, None, Blocked(str(error)), None)
        if not rows.count:
            return Ground(rows, None, None, None, Blocked("there is no other token"), None)
        certificate = self.certificate_for(alpha)
        if certificate.W is None:
            return Ground(rows, None, None, None, Blocked(certificate.message), None)
        lam = self.multipliers_for(rows, certificate)
        active: Active | None = None
        blocked: Blocked | None = None
        guess = (lam > _ACTIVE * lam.max(initial=0.0)).nonzero()[0]
        if rows.count * len(guess) > LARGEST:
            said = f"{rows.count} rows with {len(guess)} tight ones are too many for a proof"
            return Ground(rows, None, None, None, Blocked(said), certificate.W)
        try:
            active = verified(rows, guess)
        except NotVerified as error:
            blocked = Blocked(str(error), None if error.row is None else _row(rows, error.row))
        frame = None
        if active is not None:
            frame = standing.Frame(rows, active)
            wrong = ~frame.good[active.C]
            if wrong.any():
                k = int(active.C[int(wrong.argmax())])
                blocked = Blocked(not_good(rows, k), _row(rows, k))
                return Ground(rows, active, None, None, blocked, certificate.W)
            axis: cone.Axis | None = cone.Axis.exact(rows, active)
        else:
            axis = cone.Axis.near(rows, np.ldexp(certificate.W, -whole_log2(rows.unit)), lam)
        direction = certificate.W
        if active is not None:
            solution = rows.combined(active.lam, active.C).mid
            direction = np.ldexp(solution, whole_log2(rows.unit))
        return Ground(rows, active, frame, axis, blocked, direction)

    @np.errstate(all="ignore")  # what overflows is not proved
    def prove(self, W: Floats, *, explain: bool = True) -> ConvergenceProof:
        """The proof for W (d, dq), or what blocks it; in one word unless `explain` is set."""
        alpha = self.selected(W)
        at = self.ground(alpha)
        if at.rows is None or (at.frame is None and at.axis is None):
            return self._made(W, alpha, at, Found(blocked=at.blocked))
        scaled = np.ldexp(W, -whole_log2(at.rows.unit))
        found = self._tube(scaled, W, alpha, at) or self._cone(scaled, W, alpha, at)
        if found is None and self.plain:
            found = self._level(scaled, W, alpha, at)
        if found is not None:
            return found
        blocked = blocked_by(self, scaled, at) if explain else Blocked("no inequality holds")
        return self._made(W, alpha, at, Found(blocked=blocked))

    def steps(self, rows: Rows, errors: float = 0.0) -> tube.Steps:
        """The steps that are to be covered, in the units of the rows."""
        size = self.lr / rows.unit**2 if self.plain else self.lr / rows.unit
        return tube.Steps(size, self.plain, errors)

    def _tube(self, W: Floats, given: Floats, alpha: Ints, at: Ground) -> ConvergenceProof | None:
        frame = at.frame
        if frame is None:
            return None
        rows = frame.rows
        steps = self.steps(rows)
        here = standing.place(frame, W, 0.0 if self.plain else steps.size)
        D = tube.radii(frame, here)
        if not len(D):
            return None
        best = tube.widest(frame, here, steps, D)
        if best is None:
            return None
        found, j = best
        # The same with the rounding errors of many steps, where there is room for them.
        drift = drift_of(self.tokens, frame, W, float(found.h[j]))
        errors = drift * COVERED * (_size(W) + COVERED * float(found.h[j]) / 2)
        covered = tube.Steps(steps.size, steps.plain, min(errors, 1e-3 * float(frame.active.N.lo)))
        again = tube.widest(frame, here, covered, D)
        total = 0.0
        if again is not None:
            found, j = again
            total = covered.errors
        done = tube.Steps(steps.size, steps.plain, total)
        constants = tube.claims(frame, here, done, found, j)
        count = float_steps(self.tokens, frame, W, float(found.h[j]), total)
        longest = self._longest(frame, here, float(found.D[j]), found.mode, total)
        moved = here.shift.nonzero()[0]
        unit = rows.unit
        witness = {
            "mode": found.mode,
            "tight": _names(rows, frame.active.C),
            "shifted": _names(rows, moved),
            "shift": here.shift[moved] * unit**2,
            "D": np.float64(found.D[j]) * unit,
            "errors": np.float64(total) * unit,
        }
        if not self.steady:
            constants["growth"] = 0.0
        return self._made(given, alpha, at, Found("tube", constants, witness, longest, count))

    def _longest(
        self, frame: standing.Frame, here: standing.Place, D: float, mode: str, errors: float
    ) -> float:
        """The longest step with which the same tube is proved, up to a third of a per cent."""
        low, factor = self.lr, 1024.0
        unit = frame.rows.unit ** (2 if self.plain else 1)
        for _ in range(8):
            tried = low * np.geomspace(1.0, factor, 42)
            steps = tube.Steps(tried / unit, self.plain, errors)
            fits = tube.measure(frame, here, steps, np.full(len(tried), D), mode).fits
            last = int(fits.nonzero()[0].max(initial=0))
            low = float(tried[last])
            if last == len(tried) - 1 and factor == 1024:
                continue  # longer ones may do
            if factor < 1.2:
                break
            factor = float(tried[last + 1] / tried[last]) if last + 1 < len(tried) else 1.0
        return max(low, self.lr)

    def _cone(self, W: Floats, given: Floats, alpha: Ints, at: Ground) -> ConvergenceProof | None:
        rows, axis = at.rows, at.axis
        if axis is None or rows is None:
            return None
        c, R = cone.corr(axis, W)
        cosines = cone.cosines(c)
        if not len(cosines):
            return None
        size = self.steps(rows).size
        found = cone.measure_cone(rows, axis, R, cosines, size, plain=self.plain)
        if not found.fits.any():
            return None
        j = int(np.where(found.fits, found.slope - found.turn, -np.inf).argmax())
        unit = rows.unit
        longest = cone.longest(found, j, self.lr, (rows, axis, R, size, self.plain))
        constants = cone.claims(axis, found, j, R, c, unit)
        place = {"c0": np.float64(found.c[j]), "R": np.float64(R * unit)}
        witness = {**_axis_witness(rows, at), **place}
        return self._made(given, alpha, at, Found("cone", constants, witness, longest))

    def _level(self, W: Floats, given: Floats, alpha: Ints, at: Ground) -> ConvergenceProof | None:
        rows: Any = at.rows
        margins = rows.margins(W)[rows.pull.group]
        found = measure_level(self.tokens, rows.pull, margins, self.lr)
        if found is None or not found.fits:
            return None
        constants = {
            "excess": found.excess,
            "allowed": found.allowed,
            "curvature": found.curvature,
        }
        witness = _axis_witness(rows, at)
        return self._made(given, alpha, at, Found("level", constants, witness, found.longest))

    def _made(self, W: Floats, alpha: Ints, at: Ground, found: Found) -> ConvergenceProof:
        return ConvergenceProof(
            self.tokens,
            self.head,
            W,
            self.optimizer,
            self.lr,
            self.loss.name,
            alpha,
            found.theorem,
            found.constants,
            found.witness,
            at.direction,
            found.longest,
            found.covered,
            found.blocked,
        )


def whole_log2(unit: float) -> int:
    """The k of a power of two 2^k."""
    return math.frexp(unit)[1] - 1


def _axis_witness(rows: Rows, at: Ground) -> dict[str, Any]:
    """What the direction stands on: the rows with multipliers, and the axis unless it is exact."""
    axis = at.axis
    if axis is None:
        return {}
    held = axis.mu.hi > 0
    exact = at.active is not None
    return {
        "exact": exact,
        "tight": _names(rows, held.nonzero()[0]),
        "mu": axis.mu.mid[held],
        "axis": np.empty((0, 0)) if exact else np.ldexp(axis.W.mid, whole_log2(rows.unit)),
    }


def _size(W: Floats) -> float:
    return float(np.linalg.norm(W))


def _row(rows: Rows, k: int) -> tuple[int, int]:
    return int(rows.inputs[k]), int(rows.places[k])


def _names(rows: Rows, index: Ints) -> Ints:
    """(input, token) of rows (j, 2)."""
    return np.stack([rows.inputs[index], rows.places[index]], axis=1).astype(np.int64)

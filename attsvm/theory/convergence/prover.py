"""Prover: what is common to all W of one instance and one way of training, and a proof for each W.

Rows and active sets depend on the selection alone and are kept; a proof for another W of the same
run costs a few milliseconds. `Prover` has the tube, the cone and the loss level of gradient
descent, and the power cone of mirror descent (p ≠ 2). Where there is no proof, `Blocked` says what
blocks it: a row without margin, a row that pulls the wrong way, the step, or an inequality.

`proof_of_convergence` proves one W; `proved_since` finds the first record of a run with a proof,
and `until_proved` is a stop for `train`. A run is covered where its model has W as its one block
(weight, prompt), its optimizer and loss have a theorem, its head is linear and fixed, and it has
no weight decay and no custom schedule.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints, detached, numbers, vector
from attsvm._utils.expected import number, shown, whole_instance
from attsvm._utils.interval import Interval
from attsvm.certificate import Certificate
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import Certificates, solve
from attsvm.theory.convergence import theorems
from attsvm.theory.convergence.power_cone import PowerAxis
from attsvm.theory.convergence.proof import Blocked, ConvergenceProof, Theorem, unsupported
from attsvm.theory.convergence.rows import (
    Active,
    NotVerified,
    Rows,
    not_good,
    rows_of,
    verify_active,
)
from attsvm.theory.convergence.theorems import (
    ConeAxis,
    ConeConstants,
    CoveredSteps,
    TubeFrame,
    drift_of,
    float_steps,
    locate,
    measure_level,
)
from attsvm.training.heads import HEADS, Head, Linear, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS
from attsvm.training.models.model import Evaluation, Model
from attsvm.training.optimizers import Optimizer, RuleLike, is_listed, optimizer_of
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.optimizers.steps import SCHEDULES
from attsvm.training.path import Path, pulled_back, recorded

# Rounding errors of this many steps are covered where the inequalities allow it.
COVERED = 1e6
# Beyond this many products of rows with tight rows a proof would take minutes and gigabytes.
LARGEST = 8e6
# Multipliers of rows that score more, below this share of all, are left out of μ.
_SMALL = 1e-6
# Exponents whose constants are well known in floats.
POWERS = (1.001, 1000.0)
# Steps tried for the longest one.
_TRIALS = 40
# The share of the largest multiplier from which a row counts as a tight one, at first.
_ACTIVE = 1e-7


@dataclass(frozen=True, eq=False)
class Geometry:
    """What is known of a selection: its rows, the axis of the cone (None where nothing feasible is
    known), the verified active set and the frame of the tube, or why there is none."""

    rows: Rows | None = None
    axis: Any = None
    blocked: Blocked | None = None
    direction: Floats | None = None
    active: Active | None = None
    frame: TubeFrame | None = None


@dataclass(frozen=True, eq=False)
class Prover:
    """Proofs for W of one instance: tokens, head v (d,), loss, and the steps.

    p: the exponent of mirror descent, 2 for gradient descent. plain: steps (of the dual variable)
    are lr times the gradient; otherwise each has length (dual norm) at most lr, and `steady` says
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
    known: dict[bytes, Geometry] = field(default_factory=dict)
    solved: Certificates | None = None
    p: float = 2.0

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
    def geometry(self, alpha: Ints) -> Geometry:
        """Rows, active set and axis of a selection, computed once."""
        key = alpha.tobytes()
        if key not in self.known:
            self.known[key] = self._geometry(alpha)
        return self.known[key]

    def _geometry(self, alpha: Ints) -> Geometry:
        try:
            rows = self.rows_for(alpha)
            if not rows.count:
                return Geometry(rows, blocked=Blocked("there is no other token"))
            certificate = self.certificate_for(
                alpha, "frobenius" if self.p == 2 else f"l{self.p:.12g}"
            )
        except AttsvmError as error:
            return Geometry(blocked=Blocked(str(error)))
        if certificate.W is None:
            return Geometry(rows, blocked=Blocked(certificate.message))
        own = self._axis_of if self.p == 2 else self._power_axis_of
        return own(rows, certificate, certificate.W)

    def _axis_of(self, rows: Rows, certificate: Certificate, W: Floats) -> Geometry:
        """The geometry of a selection whose problem has this solution W."""
        lam = self.multipliers_for(rows, certificate)
        active = frame = blocked = None
        guess = (lam > _ACTIVE * lam.max(initial=0.0)).nonzero()[0]
        if rows.count * len(guess) > LARGEST:
            said = f"{rows.count} rows with {len(guess)} tight ones are too many for a proof"
            return Geometry(rows, None, Blocked(said), W)
        try:
            active = verify_active(rows, guess)
        except NotVerified as error:
            blocked = Blocked(str(error), None if error.row is None else rows.name(error.row))
            axis = ConeAxis.near(rows, np.ldexp(W, -whole_log2(rows.unit)), lam)
            return Geometry(rows, axis, blocked, W)
        frame = TubeFrame(rows, active)
        wrong = ~frame.good[active.C]
        if wrong.any():
            k = int(active.C[int(wrong.argmax())])
            return Geometry(rows, None, Blocked(not_good(rows, k), rows.name(k)), W, active)
        solution = rows.combined(active.lam, active.C).mid
        direction = np.ldexp(solution, whole_log2(rows.unit))
        return Geometry(rows, ConeAxis.exact(rows, active), None, direction, active, frame)

    def _power_axis_of(self, rows: Rows, certificate: Certificate, W: Floats) -> Geometry:
        """The same for the power cone."""
        lam = self.multipliers_for(rows, certificate)
        lam = np.where(lam > 1e-14 * lam.max(initial=0.0), lam, 0.0)
        wrong = ~(rows.pull.limit.lo > 0)
        lam = np.where(wrong & (lam < _SMALL * lam.sum()), 0.0, lam)
        if (lam[wrong] > 0).any():
            k = int(np.where(wrong, lam, -1.0).argmax())
            return Geometry(rows, None, Blocked(not_good(rows, k), rows.name(k)), W)
        axis = PowerAxis.near(rows, np.ldexp(W, -whole_log2(rows.unit)), lam, self.p)
        return Geometry(rows, axis, None if axis is not None else Blocked(certificate.message), W)

    @property
    def theorems(self) -> dict[Theorem, Callable[[Floats, Geometry], dict[str, Any] | None]]:
        """What may prove a W, scaled to the rows, in the order in which it is tried."""
        if self.p != 2:
            return {"power cone": self._cone}
        own: dict[Theorem, Any] = {"tube": self._tube, "cone": self._cone}
        return own | {"level": self._level} if self.plain else own

    @np.errstate(all="ignore")  # what overflows is not proved
    def prove(
        self, W: Floats, *, explain: bool = True, only: Theorem | None = None
    ) -> ConvergenceProof:
        """The proof for W (d, dq), or what blocks it, in full where `explain` is set.

        only: the one theorem that is tried.
        """
        alpha = self.selected(W)
        at = self.geometry(alpha)
        found: dict[str, Any] | None = None
        if at.rows is None or (at.frame is None and at.axis is None):
            found = {"blocked": at.blocked}
        else:
            scaled = np.ldexp(W, -whole_log2(at.rows.unit))
            for name, by in self.theorems.items():
                if found is None and only in (None, name):
                    found = by(scaled, at)
            if found is None:
                none = Blocked("no inequality holds")
                why = self._blocked if self.p == 2 else self._power_blocked
                found = {"blocked": why(scaled, at) if explain else none}
        return self._made(W, alpha, at, found)

    def _made(
        self, W: Floats, alpha: Ints, at: Geometry, found: dict[str, Any]
    ) -> ConvergenceProof:
        return ConvergenceProof(
            self.tokens,
            self.head,
            W,
            self.optimizer,
            self.lr,
            self.loss.name,
            alpha,
            direction=at.direction,
            **found,
        )

    def steps(self, rows: Rows, errors: float = 0.0) -> CoveredSteps:
        """The steps that are to be covered, in the units of the rows."""
        size = self.lr / rows.unit**2 if self.plain else self.lr / rows.unit
        return CoveredSteps(size, self.plain, errors)

    def _tube(self, W: Floats, at: Geometry) -> dict[str, Any] | None:
        frame = at.frame
        if frame is None:
            return None
        rows = frame.rows
        steps = self.steps(rows)
        here = locate(frame, W, 0.0 if self.plain else steps.size)
        D = theorems.radii(frame, here)
        if not len(D):
            return None
        best = theorems.widest(frame, here, steps, D)
        if best is None:
            return None
        found, j = best
        # The same with the rounding errors of many steps, where the inequality still holds.
        drift = drift_of(self.tokens, frame, W, float(found.h[j]))
        errors = drift * COVERED * (float(np.linalg.norm(W)) + COVERED * float(found.h[j]) / 2)
        covered = replace(steps, errors=min(errors, 1e-3 * float(frame.active.N.lo)))
        again = theorems.widest(frame, here, covered, D)
        if again is not None:
            found, j = again
            steps = covered
        constants = theorems.tube_claims(frame, here, steps, found, j)
        if not self.steady:
            constants["growth"] = 0.0
        moved = here.shift.nonzero()[0]
        unit, total = rows.unit, steps.errors

        def fits(lr: float) -> bool:
            longer = CoveredSteps(lr / unit ** (2 if self.plain else 1), self.plain, total)
            again = theorems.measure_tube(frame, here, longer, found.D[j : j + 1], found.mode)
            return bool(again.fits[0])

        witness = {
            "mode": found.mode,
            "tight": rows.names(frame.active.C),
            "shifted": rows.names(moved),
            "shift": here.shift[moved] * unit**2,
            "D": np.float64(found.D[j]) * unit,
            "errors": np.float64(total) * unit,
        }
        return {
            "theorem": "tube",
            "constants": constants,
            "witness": witness,
            "longest_step": self._longest(fits),
            "float_steps": float_steps(self.tokens, frame, W, float(found.h[j]), total),
        }

    def _measured(self, W: Floats, at: Geometry) -> ConeConstants | None:
        """The cones that hold W; None where W is in none."""
        c, R = at.axis.locate(W)
        tried = at.axis.widths(c)
        if not len(tried) or not R > 0:
            return None
        return at.axis.measure(at.rows, R, tried, self.lr, plain=self.plain)

    def _cone(self, W: Floats, at: Geometry) -> dict[str, Any] | None:
        found = None if at.axis is None else self._measured(W, at)
        if found is None or not found.fits.any():
            return None
        rows: Any = at.rows
        axis, j = at.axis, found.best
        c, R = axis.locate(W)

        def fits(lr: float) -> bool:
            again = axis.measure(rows, R, found.at[j : j + 1], lr, plain=self.plain)
            return bool(again.fits[0])

        return {
            "theorem": axis.theorem,
            "constants": axis.claims(found, j, R, c, rows.unit),
            "witness": {
                **_axis_witness(rows, at),
                axis.key: np.float64(found.at[j]),
                "R": np.float64(R * rows.unit),
            },
            "longest_step": self._longest(fits),
        }

    def _longest(self, fits: Callable[[float], bool]) -> float:
        """The longest step that fits, by doubling and halving, to a few per mille."""
        low, high = self.lr, math.inf
        for _ in range(_TRIALS):
            tried = 2 * low if high == math.inf else low * math.sqrt(high / low)
            low, high = (tried, high) if fits(tried) else (low, tried)
            if high < 1.003 * low:
                break
        return low

    def _level(self, W: Floats, at: Geometry) -> dict[str, Any] | None:
        rows: Any = at.rows
        found = measure_level(self.tokens, rows.pull, rows.margins(W)[rows.pull.group], self.lr)
        if found is None or not found.fits:
            return None
        return {
            "theorem": "level",
            "constants": found.claims,
            "witness": _axis_witness(rows, at),
            "longest_step": found.longest,
        }

    def _blocked(self, W: Floats, at: Geometry) -> Blocked:
        """What blocks a proof at W, which is scaled to the rows."""
        rows: Any = at.rows
        frame = at.frame
        if frame is None:
            why = Blocked("no active set is known") if at.blocked is None else at.blocked
            said = f"{why.reason}, so that there is no tube; and the cone does not hold W yet"
            return Blocked(said, why.row)
        steps = self.steps(rows)
        here = locate(frame, W, 0.0 if self.plain else steps.size)
        across = np.maximum(frame.active.across.hi, 1e-300)
        reach = ((frame.active.slack.lo + 1) * float(here.rho.lo) + here.at.lo) / across
        D0 = float(here.distance.hi)
        if not np.isfinite(D0):
            return Blocked("W is too large: the square of its norm leaves the range of floats")
        k = int(reach.argmin())
        if reach[k] <= 0:
            said = f"attention is not settled: {rows.describe(k)} has no margin yet"
            return Blocked(said, rows.name(k))
        if not reach[k] > D0:
            said = (
                f"{rows.describe(k)} may lose its margin: W is {D0 * rows.unit:.3g} away from its "
                f"limit ray, and the margin is known within {reach[k] * rows.unit:.3g} of it"
            )
            return Blocked(said, rows.name(k))
        found = theorems.measure_tube(frame, here, steps, theorems.radii(frame, here), "A")
        settled = found.beta < 1
        if settled.any() and not (found.omega > 0)[settled].any():
            most = 1 / (float(frame.active.N.hi) * frame.smooth) * rows.unit
            step = f"the step {self.lr:.3g}"
            if self.plain:
                step = f"a step of {float(found.h.min()) * rows.unit:.3g}"
            return Blocked(f"{step} is too long: the tube needs less than about {most:.3g}")
        if frame.bad.any():
            level = frame.active.slack.lo * float(here.rho.lo) + here.at.lo
            level = level - frame.active.across.hi * D0
            k = int(np.where(frame.bad, level, np.inf).argmin())
            said = (
                f"{rows.describe(k)} scores more than the kept token and still pulls too strongly "
                f"(its slack is {frame.active.slack.mid[k]:.3g})"
            )
            return Blocked(said, rows.name(k))
        need = np.where(settled & (found.omega > 0), found.need / found.D**2, np.inf)
        j = int(np.nan_to_num(need, nan=np.inf).argmin())
        if not np.isfinite(need[j]):
            return Blocked("attention is not settled enough: its curvature outweighs")
        asked, had = found.need[j] * rows.unit**2, found.D[j] ** 2 * rows.unit**2
        return Blocked(f"the tube needs D² ≥ {asked:.3g} where D² = {had:.3g}")

    def _power_blocked(self, W: Floats, at: Geometry) -> Blocked:
        """Why no cone holds: W is far, a row has no margin or scores more, or the inequality."""
        found = self._measured(W, at)
        if found is None:
            u = at.axis.locate(W)[0]
            return Blocked(
                f"W is too far from the ℓ{self.p:g} max-margin direction: 1 − c_p is {u:.3g}"
            )
        rows: Any = at.rows
        inward = found.slope >= found.turn
        # The narrowest cone in which the steps turn inward, or else the narrowest.
        j = int(inward.argmax())
        if found.blocked[j].any():
            k = int(np.where(found.blocked[j], at.axis.slack.lo, np.inf).argmin())
            said = f"{rows.describe(k)} scores more than the kept token and may pull too strongly"
            if rows.pull.limit.lo[k] > 0:
                said = f"the margins are too small to tell which way {rows.describe(k)} pulls"
            return Blocked(f"{said} (its slack is {at.axis.slack.mid[k]:.3g})", rows.name(k))
        if not inward.any():
            j = int(np.nan_to_num(found.slope - found.turn, nan=-np.inf).argmax())
            return Blocked(
                f"the cone needs slope ≥ turn, and has at best {found.slope[j]:.3g} and "
                f"{found.turn[j]:.3g}: the step {self.lr:.3g} is too long, or the norm too small"
            )
        return Blocked(
            f"a margin may vanish in the cone 1 − c_p ≤ {found.at[j]:.3g}, the narrowest in which "
            "steps turn inward"
        )


def whole_log2(unit: float) -> int:
    """The k of a power of two 2^k."""
    return math.frexp(unit)[1] - 1


def _axis_witness(rows: Rows, at: Geometry) -> dict[str, Any]:
    """The rows with multipliers that give the direction, and the axis unless it is exact."""
    axis = at.axis
    if axis is None:
        return {}
    held = axis.mu.hi > 0
    exact = at.active is not None
    return {
        "exact": exact,
        "tight": rows.names(held.nonzero()[0]),
        "mu": axis.mu.mid[held],
        "axis": np.empty((0, 0))
        if exact
        else np.ldexp(Interval.of(axis.W).mid, whole_log2(rows.unit)),
    }


def covered_steps(optimizer: Optimizer) -> tuple[float, bool]:
    """(P, plain) of an optimizer whose steps are those that the theorems are about: lr times the
    gradient (plain) or of dual length lr, in the dual variable of ‖x‖_P^P/P.

    Raises Unsupported for every other optimizer: a ridge or decay changes the steps, and what an
    custom optimizer declares of its steps is not proved.
    """
    plain = optimizer.fused == "gd"
    declared = (2.0, plain) if plain or optimizer.fused == "ngd" else optimizer.dual
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
    return Prover(tokens, head, loss, optimizer.name, lr, plain, steady, p=p)


def proof_of_convergence(
    tokens: Tokens,
    W: Any,
    *,
    head: Any,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
) -> ConvergenceProof:
    """The proof for one W, or what blocks it; `attsvm.proof_of_convergence` takes sentences too."""
    return prover(tokens, head=head, optimizer=optimizer, lr=lr, loss=loss).prove(
        check_W(tokens, W)
    )


def prover(
    tokens: Tokens,
    *,
    head: Any,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
    steady: bool = True,
) -> Prover:
    """The Prover of one instance, for many W; steady: every step has length lr, none is shorter."""
    if not isinstance(tokens, Tokens):
        raise BadTokens(f"a proof of convergence takes Tokens, this is {type(tokens).__name__}")
    size = math.nan if isinstance(lr, bool | str) else number(lr)
    if not 0 < size < np.inf:
        raise Unsupported(f"lr is {shown(lr)}: a proof needs a positive step")
    v, made = _vector(head, tokens), optimizer_of(optimizer)
    return prover_for(made, tokens, v, loss_of(loss), size, steady=steady)


def check_W(tokens: Tokens, W: Any) -> Floats:
    """W as a finite float64 matrix (d, dq)."""
    shape = (int(tokens.keys.shape[2]), int(tokens.queries.shape[1]))
    array = numbers(detached(W), "W").astype(np.float64)
    if array.ndim == 1 and shape[1] == 1:
        array = array[:, None]
    if array.shape != shape:
        raise BadTokens(f"W has shape {np.shape(W)}; it must be {shape}")
    if not np.isfinite(array).all():
        raise BadTokens("W is not finite")
    return np.ascontiguousarray(array)


def _vector(head: Any, tokens: Tokens) -> Floats:
    if head is None:
        raise BadTokens("a proof of convergence needs the head: give head=v")
    if isinstance(head, Head):
        if type(head) is not Linear:  # a custom head only claims to be linear
            raise unsupported(f"head {head.name!r}")
        head = head.v
    v = numbers(detached(head), "head").astype(np.float64)
    return vector(v[0] if v.ndim == 2 and len(v) == 1 else v, tokens.d)


def head_at(head: Any, tokens: Tokens, instance: int) -> Head | None:
    """The head of one instance, from a vector, a stack of them, a tensor or a Head; a custom Head
    is for all instances."""
    if head is None:
        return None
    made = head_of(detached(head), tokens.d)
    if type(made) not in HEADS.values() or len(getattr(made, made.block)) == 1:
        return made
    block = getattr(made, made.block)
    b = whole_instance(instance, len(block))
    fields: dict[str, Any] = {made.block: block[b : b + 1]}
    return replace(made, **fields)  # type: ignore[type-var]


# Attention below this on some top token: no proof is tried, none of the theorems reaches so far.
_SURE = 0.5


class Since(NamedTuple):
    """The first record with a proof: its index, its step, and the proof."""

    record: int
    step: int
    proof: ConvergenceProof


def prover_of(
    config: Mapping[str, Any], form: Model, tokens: Tokens, head: Any, step: int = 0
) -> Prover:
    """The Prover of a run from its config; raises Unsupported for a run without a theorem.

    step: where the proof begins; a falling schedule has shorter steps from there on.
    """
    if not form.fused or form.trains_head or form is not MODELS.get(form.name):
        raise Unsupported(
            f"no theorem of convergence covers model {form.name!r}: it covers weight and prompt"
        )
    lr, steady = covered_step(config, step)
    return prover(
        tokens, head=head, optimizer=config["optimizer"], lr=lr, loss=config["loss"], steady=steady
    )


def covered_step(config: Mapping[str, Any], step: int) -> tuple[float, bool]:
    """The longest step of a run from this step on, and whether all have that length.

    Raises Unsupported for what makes steps that no theorem covers.
    """
    if pulled_back(config):
        raise Unsupported("no theorem of convergence covers weight decay or a ridge")
    schedule = config.get("schedule", "constant")
    if schedule not in SCHEDULES:
        raise Unsupported(
            "no theorem of convergence covers a custom schedule, whose steps are not known: "
            f"it covers {', '.join(SCHEDULES)}"
        )
    if "optimizer" in config.get("outside", ()) or "loss" in config.get("outside", ()):
        raise Unsupported("no theorem of convergence covers a custom optimizer or a custom loss")
    steady, lr = schedule == "constant", float(config["lr"])
    return lr if steady else lr * SCHEDULES[schedule](step), steady


def proved_since(
    path: Path, tokens: Tokens, head: Any, *, instance: int = 0, model: Model | None = None
) -> Since | None:
    """The first record from which the run is proved to converge, None where its end is not.

    Found by halving, as if records with a proof came last; the one named has a proof in any case.
    """
    form: Any = path.form(model)
    one = head_at(head, tokens, instance)
    made = prover_of(path.config, form, tokens, one, int(path.steps[-1]))

    def at(record: int) -> ConvergenceProof:
        step = int(path.steps[record])
        own = made if made.steady else prover_of(path.config, form, tokens, one, step)
        return own.prove(form.matrix(path.at(record))[instance], explain=False)

    held = (path.top[:, instance] == path.top[-1, instance]).all(axis=1)
    loose = (~held).nonzero()[0]
    low = int(loose[-1]) if len(loose) else -1
    high = len(path.steps) - 1
    best = at(high)
    if not best.proved:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        if tried.proved:
            high, best = middle, tried
        else:
            low = middle
    return Since(high, int(path.steps[high]), best)


def until_proved(
    tokens: Tokens | Sequence[Tokens],
    head: Any,
    config: Mapping[str, Any],
    *,
    model: Model,
) -> Callable[[int, Blocks, Evaluation], bool]:
    """A `stop` for `train`: every instance is proved to converge.

    config: optimizer, lr, loss, schedule and decay of the run. Looked at on the grid of records
    only; an instance that has been proved is not looked at again.
    """
    listed = [tokens] if isinstance(tokens, Tokens) else list(tokens)
    provers = [prover_of(config, model, one, head_at(head, one, b)) for b, one in enumerate(listed)]
    open_ = set(range(len(listed)))

    def stop(step: int, params: Blocks, found: Evaluation) -> bool:
        if not recorded(step):
            return False
        least = np.take_along_axis(found.logs, found.top[:, :, None], 2)[:, :, 0].min(axis=1)
        matrices = model.matrix(params)
        for b in sorted(open_):
            if least[b] < np.log(_SURE):
                continue
            made = provers[b]
            if not made.steady:
                made = prover_of(config, model, listed[b], provers[b].head, step)
            if made.prove(matrices[b], explain=False).proved:
                open_.discard(b)
        return not open_

    return stop

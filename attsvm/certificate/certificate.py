"""Certificate: bounds on the least norm that anyone can recompute from the problem's data.

For multipliers λ ≥ 0 (μ free in sign on ties) and any feasible W,

    lower = (Σ b λ + Σ c μ) / ‖Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ‖_dual  ≤  least norm  ≤  ‖W‖ = upper

A solver hands over an untrusted (W, λ); only this module turns it into a Certificate. Both bounds
carry the rounding error of their own computation, so `gap` is never below it.

Theory: weak duality; the rounding bounds are the standard model of [higham2002accuracy].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attsvm.certificate import longer
from attsvm.certificate.bounds import Below, above, below, margin_error, measure, worst_margin
from attsvm.certificate.correction import Corrected, correct
from attsvm.certificate.soft import soft_lower, soft_upper
from attsvm.errors import BadTokens, Inseparable, NotConverged, Unsupported
from attsvm.lazy import lazy
from attsvm.norms import Norm, norm_of
from attsvm.problem import Problem
from attsvm.tokens import Floats, numbers

if TYPE_CHECKING:
    from attsvm.certificate.tight import Tight
    from attsvm.certificate.verify import Check

Status = Literal["optimal", "inseparable", "stalled"]
# Products up to which both bounds are taken in one compiled pass.
_ONE_PASS = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """What is known about the least norm of a problem, and the pair that shows it.

    W (d, dq): feasible up to rounding, worst margin 1 (None when there is none); multipliers (m,)
    and tie_multipliers (l,), scaled so that the combined rows have dual norm 1: then `lower` is
    Σ bλ + Σ cμ, and λ_k is the growth of the least norm with b_k. `upper` is inf without a
    feasible W. With a budget C the bounds are of ½‖W‖² + C Σ ξ instead, and λ is not scaled.
    """

    problem: Problem
    norm: Norm
    W: Floats | None
    multipliers: Floats
    tie_multipliers: Floats
    lower: float
    upper: float
    status: Status
    tolerance: float
    residual: float
    proof: Literal["numerical", "exact"] | None = None
    budget: float = np.inf

    @property
    def gap(self) -> float:
        """upper/lower − 1, inf when either side is missing."""
        if self.upper == 0.0:
            return 0.0
        return self.upper / self.lower - 1 if 0 < self.lower < np.inf else np.inf

    @lazy
    def margins(self) -> Floats:
        """Δ_kᵀ W z_k of each margin (m,), empty without a W."""
        return np.empty(0) if self.W is None else self.problem.margins(self.W)

    @lazy
    def tight(self) -> Tight:
        """Which margins are surely met with equality, surely not, or undecided."""
        from attsvm.certificate.tight import tight_rows

        return tight_rows(self)

    @lazy
    def rank(self) -> int | None:
        """Singular values of W above 1e-4 of the largest; None without a W."""
        if self.W is None:
            return None
        s = np.linalg.svd(self.W, compute_uv=False)
        return int((s > 1e-4 * s[0]).sum()) if s[0] > 0 else 0

    @lazy
    def rank_bound(self) -> int:
        """How many singular values of A*λ are within √gap of the largest: no nuclear solution
        has a larger rank, up to the gap."""
        s = np.linalg.svd(self.problem.adjoint(self.multipliers, self.tie_multipliers))[1]
        near = 1 - max(np.sqrt(self.gap), 1e-6) if np.isfinite(self.gap) else 0.0
        return int((s >= near * s[0]).sum())

    @property
    def message(self) -> str:
        """One sentence on what is proved."""
        if self.status == "inseparable":
            return (
                f"no W meets the rows ({self.proof} proof: multipliers combine them to "
                f"{self.residual:.1e} of their size); no solution of norm below {self.lower:.3g}"
            )
        if not np.isfinite(self.upper):
            return f"no feasible W was found; the norm is at least {self.lower:.6g}"
        word = "optimal" if self.status == "optimal" else "stopped early"
        what = "norm" if np.isinf(self.budget) else f"objective at C = {self.budget:g}"
        return (
            f"{word}: {self.norm.name} {what} in [{self.lower:.12g}, {self.upper:.12g}], "
            f"gap {self.gap:.1e}"
        )

    def require(self) -> Certificate:
        """The certificate itself when it is optimal; Inseparable or NotConverged otherwise."""
        if self.status == "inseparable":
            raise Inseparable(self.message)
        if self.status == "stalled":
            raise NotConverged(f"{self.message} (asked for {self.tolerance:.1e})")
        return self

    def verify(self, *, exact: bool = False) -> Check:
        """The verdict of a recomputation from the data alone, in floats or exact rationals."""
        from attsvm.certificate.verify import compare, verify_exactly

        if exact:
            return verify_exactly(self)
        again = certify(
            self.problem, self.norm, self.W, self.multipliers, self.tie_multipliers,
            tol=self.tolerance, budget=self.budget,
        )  # fmt: skip
        return compare(self, again)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the certificate with its problem as an .npz file without pickles, in one move."""
        from attsvm.certificate.saved import save

        save(self, path, force=force)

    @staticmethod
    def load(path: str | Path) -> Certificate:
        """The certificate saved in this file; its claims are not checked before `verify` is."""
        from attsvm.certificate.saved import load

        return load(path)

    def __repr__(self) -> str:
        return f"Certificate({self.message})"

    def _repr_html_(self) -> str:
        from attsvm.certificate.table import certificate_table

        return certificate_table(self)


def certify(
    problem: Problem,
    norm: str | Norm,
    W: Any,
    multipliers: Any,
    tie_multipliers: Any = None,
    *,
    tol: float | None = None,
    budget: float = np.inf,
) -> Certificate:
    """The Certificate that (W, λ, μ) supports, recomputed from the problem's data.

    W may be None (nothing feasible is claimed); negative λ count as 0; W is scaled to worst
    margin 1 and, with ties or zero right-hand sides, corrected by the least change that restores
    them, whose norm enters `upper`.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problem = attsvm.Problem.of(tokens, attsvm.Selection.of(tokens, [0]))
    >>> found = attsvm.certify(problem, "frobenius", [[0.0], [3.0]], [0.0, 1.0])
    >>> found.status, round(found.lower, 9), round(found.upper, 9)
    ('optimal', 1.0, 1.0)
    """
    geometry = norm_of(norm)
    goal = geometry.tolerance if tol is None else tol
    if not goal > 0 or not budget > 0:
        raise Unsupported(f"tol is {goal} and the budget {budget}: both must be positive")
    lam = _finite(multipliers, "multipliers")
    lam = np.maximum(lam, 0.0)
    if budget < np.inf:
        lam = np.minimum(lam, budget)
    mu = np.zeros(problem.ties) if tie_multipliers is None else _finite(tie_multipliers, "ties")
    if lam.shape != (problem.m,) or mu.shape != (problem.ties,):
        raise BadTokens(
            f"{lam.size} multipliers for {problem.m} margins and {mu.size} for {problem.ties} ties"
        )
    if np.isfinite(budget):
        return _soft(problem, geometry, W, lam, mu, goal, budget)
    matrix = _matrix(problem, W)
    low, high = _bounds(problem, geometry, matrix, lam, mu)
    if high.W is not None and high.norm > float(low.value) * (1 + goal):
        low, high = _longer(problem, geometry, matrix, lam, low, high)
    lower, null = float(low.value), bool(low.null)
    status: Status = "stalled"
    proof: Literal["numerical", "exact"] | None = None
    scale = 1.0 / float(low.dual) if low.dual > 0 else 1.0
    if null:
        status, proof = "inseparable", "exact" if _exactly_zero(problem, lam, mu) else "numerical"
        high, scale = Corrected(None, np.inf), 1.0
    elif high.norm == 0.0 or high.norm <= lower * (1 + goal):
        status = "optimal"
    return Certificate(
        problem, geometry, high.W, lam * scale, mu * scale,
        lower, high.norm, status, goal, float(low.residual), proof,
    )  # fmt: skip


def _finite(multipliers: Any, name: str) -> Floats:
    """Multipliers as floats; those that are not finite count as 0."""
    array = numbers(multipliers, name).astype(np.float64, copy=False)
    # A sum of squares that is finite shows it of every entry, in one pass.
    if array.ndim == 1 and isfinite(np.vdot(array, array)):
        return array
    return np.where(np.isfinite(array), array, 0.0)


def _soft(
    problem: Problem, norm: Norm, W: Any, lam: Floats, mu: Floats, tol: float, budget: float
) -> Certificate:
    """The Certificate of a soft margin: bounds on ½‖W‖² + C Σ ξ."""
    lower = soft_lower(problem, norm, lam, mu)
    matrix, upper = soft_upper(problem, norm, _matrix(problem, W), budget)
    status: Status = "optimal" if upper <= lower * (1 + tol) or upper == 0 else "stalled"
    return Certificate(problem, norm, matrix, lam, mu, lower, upper, status, tol, 0.0, None, budget)


def _exactly_zero(problem: Problem, lam: Floats, mu: Floats) -> bool:
    """Whether the proof is a single margin that is exactly zero: it stands as it is."""
    used = lam.nonzero()[0]
    return len(used) == 1 and not mu.any() and problem.is_zero(int(used[0]))


def _matrix(problem: Problem, W: Any) -> Floats | None:
    """W as a finite array (d, dq), or None."""
    if W is None:
        return None
    matrix = numbers(W, "W").astype(np.float64, copy=False)
    if matrix.ndim == 1 and problem.shape[1] == 1:
        matrix = matrix[:, None]
    if matrix.shape != problem.shape:
        return None
    finite = isfinite(np.vdot(matrix, matrix)) or bool(np.isfinite(matrix).all())
    return matrix if finite else None


def _bounds(
    problem: Problem, norm: Norm, W: Floats | None, lam: Floats, mu: Floats
) -> tuple[Below, Corrected]:
    """Both bounds; in one compiled pass when the problem is small and plain."""
    shape = problem.shape
    if W is None or not problem.scalable or problem.m * shape[0] * shape[1] > _ONE_PASS:
        return _below(problem, norm, lam, mu), _above(problem, norm, W)
    worth, size, used, G, worst = measure(
        problem.differences(), problem.queries, problem.query, problem.b, problem.row_norms,
        lam, np.ascontiguousarray(W), margin_error(shape),
    )  # fmt: skip
    low = below(norm, shape, worth=worth, absolute=worth, size=size, used=used, G=G)
    if not worst > 0:
        return low, Corrected(None, np.inf)
    return low, Corrected(W / worst, float(above(norm, shape, W, worst)))


def _below(problem: Problem, norm: Norm, lam: Floats, mu: Floats) -> Below:
    """The lower bound of (λ, μ)."""
    worth = problem.b @ lam
    absolute, size = worth, problem.row_norms @ lam
    used = np.count_nonzero(lam)
    if problem.ties:
        worth = worth + problem.c @ mu
        absolute = absolute + np.abs(problem.c) @ np.abs(mu)
        size = size + problem.tie_norms @ np.abs(mu)
        used += np.count_nonzero(mu)
    G = problem.adjoint(lam, mu)
    return below(norm, problem.shape, worth=worth, absolute=absolute, size=size, used=used, G=G)


def _longer(
    problem: Problem, norm: Norm, W: Floats | None, lam: Floats, low: Below, high: Corrected
) -> tuple[Below, Corrected]:
    """The better of these bounds and those evaluated in longer numbers, where that can help."""
    if W is None or high.norm > float(low.value) * 1.01 or not longer.fits(problem):
        return low, high
    worst = longer.worst_margin(problem, W)
    value = float(above(norm, problem.shape, W, worst))
    if value < high.norm:
        high = Corrected(W / worst, value)
    found = longer.lower(problem, norm, lam)
    return (found if found.value > low.value else low), high


def _above(problem: Problem, norm: Norm, W: Floats | None) -> Corrected:
    """The norm of a feasible matrix near W, rounded up; inf without one."""
    if W is None:
        return Corrected(None, np.inf)
    if not problem.scalable:
        return correct(problem, norm, W)
    worst = float(
        worst_margin(
            problem.shape, W, margins=problem.margins(W), row_norms=problem.row_norms, b=problem.b
        )
    )
    if not worst > 0:
        return Corrected(None, np.inf)
    return Corrected(W / worst, float(above(norm, problem.shape, W, worst)))

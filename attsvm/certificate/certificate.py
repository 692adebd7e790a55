"""Certificate: bounds on the least norm that anyone can recompute from the problem's data.

For multipliers λ ≥ 0 (μ free in sign on ties) and any feasible W,

    lower = (Σ b λ + Σ c μ) / ‖Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ‖_dual  ≤  least norm  ≤  ‖W‖ = upper

A solver hands over an untrusted (W, λ) at any scale; `certify` takes the bounds from the problem's
data alone, and only `make_certificate` turns bounds into a Certificate. Both bounds carry the
rounding error of their own computation, so `gap` is never below it.

A soft margin has bounds on ½‖W‖² + C Σ ξ_k:

    min ½‖W‖² + C Σ ξ_k  s.t.  Δ_kᵀ W z_k ≥ b_k − ξ_k, ξ ≥ 0, ties     (C: the budget)
    max Σ bλ + Σ cμ − ½‖A*λ + C*μ‖²_dual  s.t.  0 ≤ λ ≤ C

Any W is feasible up to the ties, so an upper bound always exists; any λ within the budget gives a
lower bound, and both λ and W may be scaled for a better one.

`Certificate.tight` says which margins are met with equality at the solution, certified, not
thresholded. Where the norm is uniformly convex a small gap confines the solution: every feasible W
of norm up to `upper` lies within `norm.ball` of W*, so a slack beyond ‖Δ_k‖‖z_k‖ times that is
surely loose. The combined rows A*λ are confined likewise by `norm.dual_ball`; when the rows that
may be tight are independent, no optimal multiplier is further from λ than that over their smallest
singular value σ, so a λ_k beyond it is positive in every optimum: surely tight. What remains is
settled in exact arithmetic on small Frobenius problems, or stays undecided. Elsewhere (nuclear,
spectral, max, l1) solutions need not be unique and tight rows depend on the solution: a verdict is
about this solution, tight when λ_k forces the slack of every one to be small.

Theory: weak duality; the rounding bounds are the standard model of [higham2002accuracy].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import isfinite, ldexp
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints, numbers
from attsvm._utils.expected import flag, number
from attsvm._utils.files import finite
from attsvm._utils.memory import HEADROOM, available
from attsvm._utils.result import Result, Summary, Table, draw
from attsvm.certificate.bounds import (
    LEAST_MARGIN,
    LowerBound,
    above,
    below,
    ceiling,
    centred,
    exponent,
    least_singular,
    length,
    long_below,
    long_fits,
    long_worst_margin,
    margin_error,
    measure,
    value_above,
    worst_margin,
)
from attsvm.certificate.feasibility_repair import Corrected, correct, restore_ties
from attsvm.errors import BadTokens, Infeasible, NotConverged, Unsupported
from attsvm.norms import Norm, check_shape, norm_of
from attsvm.norms.norm import RANK, UNIT
from attsvm.problem.problem import SMALLEST_ROW, Problem, StackRows, equal_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attsvm.certificate.verify import Check

Status = Literal["optimal", "infeasible", "stalled"]


# No bound is smaller: limits on keys, queries and right-hand sides keep norms above 1e-230.
_LEAST = 1e-305
# How the message begins where the tokens themselves are the reason.
_INFEASIBLE = "Infeasible: "


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Table):
    """What is known about the least norm of a problem, and the pair that shows it.

    W (d, dq): worst margin 1, up to rounding, and within `reach`, in Frobenius norm, of a matrix
    that is feasible exactly (None when there is none; ties give a reach); multipliers (m,)
    and tie_multipliers (l,), scaled so that the combined rows have dual norm 1: then `lower` is
    Σ bλ + Σ cμ, and λ_k is the growth of the least norm with b_k. `upper` is inf without a
    feasible W. With a budget C the bounds are of ½‖W‖² + C Σ ξ instead, and λ is not scaled.

    An `infeasible` problem has no W at all when `proof` is "exact": then `lower` is inf and
    `farkas` (m + l,), the exact Farkas certificate, holds integers, not negative on margins, that
    combine the rows to exactly zero and their right-hand sides to a positive number. With a
    "numerical" proof no W of norm below `lower` exists, which is all that is known. Where the
    problem's ties carry an error the bounds are of the least norm within it, and `moved` says how
    far from their right-hand sides the ties lie.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, [0]))
    >>> best.status, round(best.lower, 6), round(best.upper, 6), best.gap < 1e-8
    ('optimal', 1.0, 1.0, True)
    >>> best.W.ravel().round(6)
    array([0., 1.])
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
    residual: float = 0.0
    proof: Literal["numerical", "exact"] | None = None
    budget: float = np.inf
    farkas: NDArray[np.object_] | None = None
    reach: float = 0.0
    moved: float = 0.0

    @property
    def gap(self) -> float:
        """upper/lower − 1, inf when either side is missing."""
        if self.upper == 0.0:
            return 0.0
        return self.upper / self.lower - 1 if 0 < self.lower < np.inf else np.inf

    @cached_property
    def margins(self) -> Floats:
        """Δ_kᵀ W z_k of each margin (m,), empty without a W."""
        return np.empty(0) if self.W is None else self.problem.margins(self.W)

    @cached_property
    def tight(self) -> Tight:
        """Which margins are certainly met with equality, certainly not, or undecided."""
        return tight_rows(self)

    @cached_property
    def rank(self) -> int | None:
        """Singular values of W above 1e-4 of the largest; None without a W."""
        if self.W is None:
            return None
        s = np.linalg.svd(self.W, compute_uv=False)
        return int((s > RANK * s[0]).sum()) if s[0] > 0 else 0

    @cached_property
    def rank_bound(self) -> int:
        """No nuclear solution has more singular values above 1e-4 of its largest than this.

        A smaller singular value cannot be told from zero at any positive gap: the rank itself has
        no such bound. It is min(d, dq) in another norm, with a budget, and without a feasible W.
        """
        if self.budget < np.inf or self.upper == np.inf:
            return min(self.problem.shape)
        G = self.problem.adjoint(self.multipliers, self.tie_multipliers)
        size = self.problem.row_norms @ self.multipliers
        size += self.problem.tie_norms @ np.abs(self.tie_multipliers)
        # What rounding of G and of its singular values may add to each of these.
        error = (self.problem.m + self.problem.ties + 16) * UNIT * size
        error += self.norm.rounding(self.problem.shape)
        return self.norm.rank_bound(G, float(error), self.lower, self.upper)

    @property
    def message(self) -> str:
        """One sentence on what is proved."""
        if self.proof == "exact":
            why = equal_tokens(self.problem)
            if why:
                return f"{_INFEASIBLE}{why} (exact Farkas certificate)"
            return "no W satisfies these constraints: exact Farkas certificate"
        if self.status == "infeasible":
            return (
                f"no W of norm below {self.lower:.3g} satisfies these constraints, and whether a "
                f"larger one does is not decided: numerical Farkas certificate, residual "
                f"{self.residual:.1e}"
            )
        if not np.isfinite(self.upper):
            return f"no feasible W was found; the norm is at least {self.lower:.6g}"
        end = "optimal" if self.status == "optimal" else "stopped early"
        what = "norm" if np.isinf(self.budget) else f"objective at C = {self.budget:g}"
        return (
            f"{end}: {self.norm.name} {what} in [{self.lower:.12g}, {self.upper:.12g}], "
            f"gap {self.gap:.1e}"
            + (f", ties within {self.moved:.1e} of theirs" if self.moved else "")
        )

    def require(self) -> Certificate:
        """The certificate itself. Raises Infeasible or NotConverged unless it is optimal."""
        if self.status == "infeasible":
            raise Infeasible(self.message.removeprefix(_INFEASIBLE))
        if self.status == "stalled":
            raise NotConverged(f"{self.message} (asked for {self.tolerance:.1e})")
        return self

    def verify(self, *, exact: bool = False) -> Check:
        """The verdict of a recomputation from the data alone, in floats or exact rationals.

        In floats the bounds are computed again, rounding included, and claims within 1e-12 of
        them pass: good against a wrong W or λ, not against a bound off in its last digits. The
        exact verdict has no tolerance.
        """
        from attsvm.certificate.verify import compare, verify_exactly

        if flag(exact, "exact"):
            return verify_exactly(self)
        again = certify(
            self.problem,
            self.norm,
            self.W,
            self.multipliers,
            self.tie_multipliers,
            tol=self.tolerance,
            budget=self.budget,
        )
        return compare(self, again)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the certificate with its problem as an .npz file without pickles, in one move."""
        from attsvm.certificate.saved import save

        save(self, path, force=force)

    @staticmethod
    def load(path: str | Path, *, norm: Norm | None = None) -> Certificate:
        """The certificate saved in this file; its claims are not checked before `verify` is.

        norm: the object, where the file names a norm that is not the library's.
        """
        from attsvm.certificate.saved import load

        return load(path, norm=norm)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain data that JSON can hold; infinities and unknowns are None.

        rows and tight: the input, the kept and the dropped token of each margin.
        """
        W, verdict, rows = self.W, self.tight, self.problem.rows
        found: dict[str, Any] = {
            "status": self.status,
            "message": self.message,
            "norm": self.norm.name,
            "W": W,
            "value": None if W is None else self.norm.value(W),
            "lower": self.lower,
            "upper": self.upper,
            "gap": self.gap,
            "C": self.budget,
            "margins": self.margins,
            "multipliers": self.multipliers,
            "rows": rows,
            "tight": {
                "rows": rows[verdict.tight],
                "undecided": rows[verdict.undecided],
                "how": verdict.how,
            },
            "rank": self.rank,
            "proof": self.proof,
            "residual": self.residual,
            "moved": self.moved,
        }
        return dict(finite(found))

    def columns(self) -> dict[str, Any]:
        """The rows as a table: margins first, then ties.

        kind, input, kept and dropped token (−1 where there is none), right-hand side b, the margin
        Δᵀ W z (nan without a W), its multiplier, and whether it is tight.
        """
        p, verdict = self.problem, self.tight
        names = np.concatenate([p.rows, p.tie_rows]).reshape(-1, 3)
        margins = np.full(p.m, np.nan) if self.W is None else self.margins
        ties = np.full(p.ties, np.nan) if self.W is None else p.tie_values(self.W)
        tight = np.select([verdict.tight, verdict.loose], ["tight", "loose"], "undecided")
        return {
            "kind": ["margin"] * p.m + ["tie"] * p.ties,
            "input": names[:, 0],
            "kept": names[:, 1],
            "dropped": names[:, 2],
            "b": np.concatenate([p.b, p.c]),
            "margin": np.concatenate([margins, ties]),
            "multiplier": np.concatenate([self.multipliers, self.tie_multipliers]),
            "tight": [*tight.tolist(), *["tie"] * p.ties],
        }

    def plot(self, *, ax: Any = None, style: str = "screen") -> Figure:
        """The margins over their right-hand sides, least first; the rows that support W marked.

        ax: axes to draw into, in their own style. style: "screen", or "paper" for a column.
        """
        return draw("certificate", self, ax=ax, style=style)

    def _card(self) -> Summary:
        p = self.problem
        finite = np.isfinite(self.upper)
        facts = {
            "status": self.status,
            "norm": self.norm.name,
            "lower": f"{self.lower:.12g}",
            "upper": f"{self.upper:.12g}" if finite else "none",
            "gap": f"{self.gap:.1e}" if np.isfinite(self.gap) else "unknown",
            "rows": f"{p.m:,} margins, {p.ties:,} ties",
            "W": f"{p.shape[0]} × {p.shape[1]}" + ("" if self.W is None else f", rank {self.rank}"),
        }
        return Summary("Certificate", self.message, facts, brief=True)


def make_certificate(
    problem: Problem,
    norm: Norm,
    W: Floats | None,
    multipliers: Floats,
    tie_multipliers: Floats,
    *,
    lower: float,
    upper: float,
    tolerance: float,
    proof: Literal["numerical", "exact"] | None = None,
    **known: Any,
) -> Certificate:
    """The one place where a Certificate is made: its status follows from what is proved.

    known: the other fields of a Certificate that differ from their defaults.
    """
    if lower < _LEAST:  # below the normal floats rounding is no share of a number any more
        lower = 0.0
    status: Status = "stalled"
    if proof is not None:
        status = "infeasible"
    elif upper == 0.0 or upper <= lower * (1 + tolerance):
        status = "optimal"
    record: Certificate = object.__new__(Certificate)
    # All fields at once: a stack makes thousands, and setting them one by one costs more than
    # the bounds. The defaults are those of the class.
    fields = {
        "problem": problem,
        "norm": norm,
        "W": W if upper < np.inf else None,
        "multipliers": multipliers,
        "tie_multipliers": tie_multipliers,
        "lower": lower if lower <= upper else upper,
        "upper": upper,
        "status": status,
        "tolerance": tolerance,
        "proof": proof,
        **known,
    }
    object.__setattr__(record, "__dict__", fields)
    return record


# Where solutions are not unique: a slack below this share of b counts as met.
_MET = 1e-4
# Rows that may be tight, beyond which their Gram is not formed: its eigenvalues take minutes.
_MOST = 8000
# Matrices of that size in memory at once.
_GRAMS = 4
# Bytes below which the system is not asked what is free.
_LITTLE = 1 << 24
# Margins up to which undecided rows are settled exactly.
_EXACT = 60
# The rounding of a radius itself, generously.
_ROUNDED = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Tight(Result):
    """A verdict on each margin (m,): exactly one of tight, loose, undecided is True.

    `radius` is the Frobenius distance within which the solution is known; `how` says what the
    verdicts rest on.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [0.5, 0.0], [0.0, -3.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, [0]))
    >>> best.tight.tight, best.tight.loose
    (array([ True, False]), array([False,  True]))
    """

    tight: Bools
    loose: Bools
    undecided: Bools
    radius: float
    how: str

    @property
    def rows(self) -> Ints:
        """The indices of the surely tight margins."""
        return self.tight.nonzero()[0]

    def _card(self) -> Summary:
        counts = [int(a.sum()) for a in (self.tight, self.loose, self.undecided)]
        said = f"{counts[0]} tight, {counts[1]} loose, {counts[2]} undecided; {self.how}"
        facts = {"tight rows": self.rows, "radius": self.radius, "how": self.how}
        return Summary("Tight", said, facts, brief=True)


def tight_rows(certificate: Certificate) -> Tight:
    """The verdict on each margin at the certified solution."""
    problem = certificate.problem
    m = problem.m
    nothing = np.zeros(m, dtype=bool)
    if certificate.W is None or not np.isfinite(certificate.upper) or m == 0:
        return Tight(nothing, nothing, ~nothing, np.inf, "no feasible W")
    if certificate.upper == 0.0:
        return Tight(problem.b == 0, problem.b > 0, nothing, 0.0, "the solution is zero")
    if np.isfinite(certificate.budget):
        return Tight(nothing, nothing, ~nothing, np.inf, "soft margin")
    # In units of a power of two near the size of W: squares of 1e-225 would be zero.
    e = exponent(certificate.W)
    W, b = np.ldexp(certificate.W, -e), np.ldexp(problem.b, -e)
    slack = problem.margins(W) - b
    away = margin_error(problem.shape) * length(W) + 1.01 * ldexp(certificate.reach, -e)
    error = away * problem.row_norms + 2 * UNIT * b
    if not certificate.norm.unique:
        return _at_this_solution(certificate, ldexp(1.0, e) * slack, ldexp(1.0, e) * error)
    to_value, to_dual = certificate.norm.spread(problem.shape)
    upper, lower = ldexp(certificate.upper, -e), ldexp(certificate.lower, -e)
    radius = certificate.norm.ball(upper, lower) * to_dual * (1 + _ROUNDED)
    loose = slack - error > radius * problem.row_norms
    tight = _surely_positive(certificate, ~loose, to_value)
    undecided = ~(loose | tight)
    how = "the gap"
    if undecided.any() and certificate.norm.euclidean and m <= _EXACT:
        from attsvm.certificate.exact import exact_tight

        settled = exact_tight(problem, certificate.multipliers, certificate.tie_multipliers)
        if settled is not None:
            return Tight(settled.tight, ~settled.tight, nothing, 0.0, "exact arithmetic")
    return Tight(tight, loose, undecided, ldexp(radius, e), how)


def _surely_positive(certificate: Certificate, may: Bools, to_value: float) -> Bools:
    """Margins whose multiplier is positive in every optimum, (m,)."""
    problem = certificate.problem
    out = np.zeros(problem.m, dtype=bool)
    rows = may.nonzero()[0]
    count = len(rows) + problem.ties
    if not len(rows) or count > min(problem.shape[0] * problem.shape[1], _MOST):
        return out
    need = _GRAMS * 8.0 * count**2
    if need > _LITTLE and need > HEADROOM * available():
        return out
    size = np.concatenate([problem.row_norms[rows], problem.tie_norms])
    if not (size > 0).all():
        return out
    D = np.concatenate([problem.differences(rows), problem.tie_differences()]) / size[:, None]
    Z = problem.queries[np.concatenate([problem.query[rows], problem.tie_query])]
    smallest = least_singular(D, Z)
    if not smallest > 0:
        return out
    unit: Floats = certificate.multipliers * problem.row_norms
    outside = float(unit[~may].sum())
    ratio = certificate.lower / certificate.upper
    reach = certificate.norm.dual_ball(ratio) * to_value + outside
    out[rows] = unit[rows] > 1.01 * reach / smallest
    return out


def _at_this_solution(certificate: Certificate, slack: Floats, error: Floats) -> Tight:
    """Verdicts for norms without unique solutions.

    Σ λ_k (margin_k − b_k) ≤ upper − lower for every feasible W of norm up to upper.
    """
    b = np.where(certificate.problem.b > 0, certificate.problem.b, 1.0)
    width = max(certificate.upper - certificate.lower, 0.0)
    loose = slack - error > _MET * b
    tight = ~loose & (certificate.multipliers * _MET * b > width)
    how = "this solution, which need not be the only one"
    return Tight(tight, loose, ~(loose | tight), np.inf, how)


# Products up to which both bounds are taken in one compiled pass.
_ONE_PASS = 100_000
# Squares of W, and sums of λ‖Δ‖‖z‖, between these are left as they come: no bound under- or
# overflows. Others are scaled first.
PLAIN = (1e-100, 1e100)
# W = 0 is taken for a soft margin where it is better by more than rounding.
_SAVED = 1e-9
# Rows, and numbers in them, up to which an exact proof of infeasibility is tried.
_EXACT_ROWS, _EXACT_NUMBERS = 150, 30_000


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
    """The Certificate that (W, λ, μ) supports: `attsvm.certify` where multipliers are given."""
    geometry = norm_of(norm)
    check_shape(geometry, problem.shape)
    goal = geometry.tolerance if tol is None else number(tol)
    budget = number(budget)
    if not goal > 0 or not budget > 0:
        raise Unsupported(f"tol is {goal} and the budget {budget}: both must be positive")
    lam = np.maximum(_finite(multipliers, "multipliers"), 0.0)
    mu = np.zeros(problem.ties) if tie_multipliers is None else _finite(tie_multipliers, "ties")
    if lam.shape != (problem.m,) or mu.shape != (problem.ties,):
        raise BadTokens(
            f"{lam.size} multipliers for {problem.m} margins and {mu.size} for {problem.ties} ties"
        )
    problem.check_sizes()
    matrix = _matrix(problem, W)
    made = partial(make_certificate, problem, geometry, tolerance=goal)
    if budget < np.inf:
        lam = np.minimum(lam, budget)
        matrix, upper, moved = soft_upper(problem, geometry, matrix, budget)
        lower = soft_lower(problem, geometry, lam, mu)
        return made(matrix, lam, mu, lower=lower, upper=upper, budget=budget, moved=moved)
    given = lam, mu
    low, high, lam, mu = _bounds(problem, geometry, matrix, lam, mu)
    if high.W is not None and high.norm > float(low.value) * (1 + goal):
        low, high = _longer(problem, geometry, matrix, lam, low, high)
    lower, residual = float(low.value), float(low.residual)
    if high.W is None:
        farkas = _contradiction(problem, *given)
        if farkas is not None:
            return made(None, lam, mu, lower=np.inf, upper=np.inf, proof="exact", farkas=farkas)
        if low.null:
            proof: Literal["numerical"] = "numerical"
            return made(None, lam, mu, lower=lower, upper=np.inf, residual=residual, proof=proof)
    scale = 1.0 / float(low.dual) if low.dual > 0 else 1.0
    return made(
        high.W,
        lam * scale,
        mu * scale,
        lower=lower,
        upper=high.norm,
        residual=residual,
        reach=high.reach,
        moved=high.moved,
    )


def _finite(multipliers: Any, name: str) -> Floats:
    """Multipliers as floats; those that are not finite count as 0."""
    array = numbers(multipliers, name).astype(np.float64, copy=False)
    # A sum of squares that is finite shows it of every entry, in one pass.
    if array.ndim == 1 and isfinite(np.vdot(array, array)):
        return array
    return np.where(np.isfinite(array), array, 0.0)


def _contradiction(problem: Problem, lam: Floats, mu: Floats) -> NDArray[np.object_] | None:
    """Integers (m + l,) that prove exactly that no W exists, sought near (λ, μ), or None.

    Rows are few enough to be tried when only those with a multiplier are looked at.
    """
    if not (lam.any() or mu.any()):
        return None
    used = lam.nonzero()[0]
    zero = used[(problem.row_norms[used] == 0) & (problem.b[used] > 0)]
    used = zero[:1] if len(zero) else used
    count = len(used) + problem.ties
    if count > _EXACT_ROWS or count * sum(problem.shape) > _EXACT_NUMBERS:
        return None
    from attsvm.certificate.exact import exact_infeasibility

    found = exact_infeasibility(problem.part(used), lam[used], mu)
    if found is None:
        return None
    # λ and μ of a proof share one denominator: the numerators alone are one, too.
    out = np.zeros(problem.m + problem.ties, dtype=object)
    out[used] = found.multipliers.numerators
    out[problem.m :] = found.tie_multipliers.numerators
    return out


def _matrix(problem: Problem, W: Any) -> Floats | None:
    """W as a finite array (d, dq), or None."""
    if W is None:
        return None
    matrix = numbers(W, "W").astype(np.float64, copy=False)
    if matrix.ndim == 1 and problem.shape[1] == 1:
        matrix = matrix[:, None]
    if matrix.shape != problem.shape:
        return None
    square = float(np.vdot(matrix, matrix))
    if PLAIN[0] < square < PLAIN[1]:
        return matrix
    if not np.isfinite(matrix).all():
        return None
    if problem.homogeneous:  # any multiple serves as well
        return np.ldexp(matrix, -exponent(matrix))
    # Logits beyond the floats say nothing.
    rows = np.concatenate([problem.row_norms, problem.tie_norms])
    return matrix if exponent(matrix) + exponent(rows) < 1000 else None


def _bounds(
    problem: Problem, norm: Norm, W: Floats | None, lam: Floats, mu: Floats
) -> tuple[LowerBound, Corrected, Floats, Floats]:
    """Both bounds, and the multipliers (λ, μ) that the lower one is of.

    In one compiled pass when the problem is small and plain.
    """
    shape = problem.shape
    if W is None or not problem.scalable or problem.m * shape[0] * shape[1] > _ONE_PASS:
        high = _above(problem, norm, W)
        low, lam, mu = _below(problem, norm, lam, mu)
        return low, high, lam, mu
    combined, sums = measure(problem.stacked, lam[None], W[None], margin_error(shape))
    worth, size, used, worst = sums[0].tolist()
    G = combined[0]
    if LEAST_MARGIN < worst < np.inf:
        high = Corrected(W / worst, float(above(norm, shape, W, worst)))
    else:
        high = Corrected(None, np.inf)
    if PLAIN[0] < size < PLAIN[1]:
        low = below(norm, shape, worth=worth, absolute=worth, size=size, used=used, G=G)
    else:
        low, lam, mu = _below(problem, norm, lam, mu)
    return low, high, lam, mu


def _below(
    problem: Problem, norm: Norm, lam: Floats, mu: Floats
) -> tuple[LowerBound, Floats, Floats]:
    """The lower bound of (λ, μ), and these as they were scaled for it."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = problem.row_norms @ lam + problem.tie_norms @ np.abs(mu)
    if not PLAIN[0] < size < PLAIN[1]:
        lam, mu = centred(lam, problem.row_norms, mu, problem.tie_norms)
        size = problem.row_norms @ lam + problem.tie_norms @ np.abs(mu)
    worth = problem.b @ lam
    absolute = worth
    used = np.count_nonzero(lam)
    if problem.ties:
        off = problem.c_error @ np.abs(mu)  # a tie within an error is worth that much less
        worth = worth + problem.c @ mu - off
        absolute = absolute + np.abs(problem.c) @ np.abs(mu) + off
        used += np.count_nonzero(mu)
    G = problem.adjoint(lam, mu)
    low = below(norm, problem.shape, worth=worth, absolute=absolute, size=size, used=used, G=G)
    return low, lam, mu


def _longer(
    problem: Problem, norm: Norm, W: Floats | None, lam: Floats, low: LowerBound, high: Corrected
) -> tuple[LowerBound, Corrected]:
    """The better of these bounds and those evaluated in longer numbers, where that can help."""
    if W is None or high.norm > float(low.value) * 1.01 or not long_fits(problem):
        return low, high
    worst = long_worst_margin(problem, W)
    value = float(above(norm, problem.shape, W, worst))
    if value < high.norm:
        high = Corrected(W / worst, value)
    found = long_below(problem, norm, lam)
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
    if not LEAST_MARGIN < worst < np.inf:
        return Corrected(None, np.inf)
    return Corrected(W / worst, float(above(norm, problem.shape, W, worst)))


def certify_stack(
    problems: Sequence[Problem],
    norm: str | Norm,
    W: Floats,
    multipliers: Floats,
    *,
    rows: StackRows | None = None,
    tol: float | None = None,
) -> list[Certificate]:
    """The Certificates of a stack of problems of one size, all without ties and with b > 0.

    W (B, d, dq), multipliers (B, m), rows: the problems' margins, if formed already. The same
    bounds as `certify`, in one pass; what has no feasible W, or lies near the ends of the float
    range, is passed to `certify`.
    """
    geometry = norm_of(norm)
    goal = geometry.tolerance if tol is None else tol
    shape = problems[0].shape
    rows = StackRows.of(problems) if rows is None else rows
    lam = np.fmax(multipliers, 0.0)
    G, sums = measure(rows, lam, W, margin_error(shape))
    worth, size, used, worst = sums.T
    square = np.einsum("bij,bij->b", W, W)
    # What is not plain is certified alone, and its numbers do not enter the others'.
    plain: Bools = (PLAIN[0] < size) & (size < PLAIN[1]) & (worst > LEAST_MARGIN) & (worst < np.inf)
    plain &= (PLAIN[0] < square) & (square < PLAIN[1])
    plain &= rows.norms.min(axis=1, initial=np.inf) >= SMALLEST_ROW
    worst = np.where(plain, worst, 1.0)
    if not plain.all():
        worth, size = np.where(plain, worth, 0.0), np.where(plain, size, 1.0)
        G = _without(G, ~plain)
    low = below(geometry, shape, worth=worth, absolute=worth, size=size, used=used, G=G)
    high = above(geometry, shape, W if plain.all() else _without(W, ~plain), worst)
    scaled = W / worst[:, None, None]
    weights = lam / np.where(low.dual > 0, low.dual, 1.0)[:, None]
    none = np.empty(0)
    numbers_of = low.value.tolist(), high.tolist(), low.residual.tolist(), plain.tolist()
    columns = zip(problems, scaled, weights, *numbers_of, strict=True)
    return [
        make_certificate(
            problem,
            geometry,
            matrix,
            share,
            none,
            lower=lower,
            upper=upper,
            tolerance=goal,
            residual=residual,
        )
        if good
        else certify(problem, geometry, W[k], lam[k], tol=goal)
        for k, (problem, matrix, share, lower, upper, residual, good) in enumerate(columns)
    ]


def _without(stack: Floats, places: Bools) -> Floats:
    """The stack (B, d, dq) with zeros in these places (B,)."""
    return np.where(places[:, None, None], 0.0, stack)


def soft_lower(problem: Problem, norm: Norm, lam: Floats, mu: Floats) -> float:
    """Σ bλ + Σ cμ − Σ c_error |μ| − ½‖A*λ + C*μ‖²_dual, rounded down; never below 0, which λ = 0
    gives, and 0 where floats overflow."""
    used = int(np.count_nonzero(lam)) + int(np.count_nonzero(mu))
    with np.errstate(over="ignore", invalid="ignore"):
        off = float(problem.c_error @ np.abs(mu))
        worth = float(problem.b @ lam + problem.c @ mu) - off
        absolute = float(problem.b @ lam + np.abs(problem.c) @ np.abs(mu)) + off
        size = float(problem.row_norms @ lam + problem.tie_norms @ np.abs(mu))
        G = problem.adjoint(lam, mu)
        if not np.isfinite(size) or not np.isfinite(G).all():
            return 0.0
        dual = _dual_above(norm, G)
        dual += norm.spread(problem.shape)[1] * (used + 8) * UNIT * size * 1.01
        value = worth - 0.5 * dual * dual
        value -= (used + 8) * UNIT * (absolute + dual * dual)
    return value if 0 < value < np.inf else 0.0


def _dual_above(norm: Norm, G: Floats) -> float:
    """A float not below dual(G), at any scale."""
    e = exponent(G)
    grown = (1 + norm.rounding(G.shape)) * (1 + 4 * UNIT)
    return ceiling(float(norm.dual(np.ldexp(G, -e))) * grown, e)


def soft_upper(
    problem: Problem, norm: Norm, W: Floats | None, budget: float
) -> tuple[Floats | None, float, float]:
    """W with its ties restored, ½‖W‖² + C Σ max(0, b − margin) rounded up, and how far its ties
    may be from c at most.

    Rows that are met up to rounding would cost C times their rounding error: without ties of
    another right-hand side than 0, W grown by just that much is tried too, and W = 0.
    """
    if W is None:
        return None, np.inf, 0.0
    found, total, share, moved = _objective(problem, norm, W, budget)
    if not problem.homogeneous:
        return found, total, moved
    nothing = budget * float(problem.b.sum()) * (1 + (problem.m + 2) * UNIT)
    if nothing < total * (1 - _SAVED):
        return np.zeros(problem.shape), nothing, 0.0
    if found is None or share == 0.0:
        return found, total, moved
    grown, better, _, also = _objective(problem, norm, found * (1 + share), budget)
    return (grown, better, also) if better < total else (found, total, moved)


def _objective(
    problem: Problem, norm: Norm, W: Floats, budget: float
) -> tuple[Floats | None, float, float, float]:
    """W with its ties restored, the objective above, the growth that clears rounding, and how far
    ties may be from c at most."""
    matrix, reach, moved = W, 0.0, 0.0
    if problem.ties:
        restored, moved = restore_ties(problem, matrix)
        if not restored.clean:
            return None, np.inf, 0.0, 0.0
        matrix, reach = restored.W, restored.reach
    with np.errstate(over="ignore", invalid="ignore"):
        error = (margin_error(problem.shape) * length(matrix) + 1.01 * reach) * problem.row_norms
        margins = problem.margins(matrix)
        short = np.maximum(problem.b - margins + error + 2 * UNIT * problem.b, 0.0)
        near = (short > 0) & (short <= 8 * error + 1e-9 * problem.b) & (margins > 0)
        share = float((2 * short[near] / margins[near]).max(initial=0.0))
        value = value_above(norm, matrix) + norm.spread(problem.shape)[0] * reach
        total = 0.5 * value * value + budget * float(short.sum())
        total *= 1 + (problem.m + 8) * UNIT
    if not total < np.inf:  # nan where an infinite budget meets nothing missed
        return None, np.inf, 0.0, 0.0
    return matrix, total, share, moved

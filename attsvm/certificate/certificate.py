"""Certificate: bounds on the least norm that anyone can recompute from the problem's data.

For multipliers λ ≥ 0 (μ free in sign on ties) and any feasible W,

    lower = (Σ b λ + Σ c μ) / ‖Σ λ_k Δ_k z_kᵀ + Σ μ_l Δ_l z_lᵀ‖_dual  ≤  least norm  ≤  ‖W‖ = upper

A solver hands over an untrusted (W, λ) at any scale; only `make_certificate`, in this module, turns
bounds into a Certificate. Both bounds carry the rounding error of their own computation, so `gap`
is never below it.

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

from dataclasses import dataclass
from math import ldexp
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.expected import flag
from attsvm._utils.memory import HEADROOM, available
from attsvm._utils.objects import lazy
from attsvm._utils.result import Result, Summary, Table, draw
from attsvm.certificate.bounds import exponent, least_singular, length, margin_error
from attsvm.errors import Infeasible, NotConverged
from attsvm.norms import Norm
from attsvm.norms.norm import RANK, UNIT
from attsvm.problem.problem import Problem, equal_tokens

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
    residual: float
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

    @lazy
    def margins(self) -> Floats:
        """Δ_kᵀ W z_k of each margin (m,), empty without a W."""
        return np.empty(0) if self.W is None else self.problem.margins(self.W)

    @lazy
    def tight(self) -> Tight:
        """Which margins are certainly met with equality, certainly not, or undecided."""
        return tight_rows(self)

    @lazy
    def rank(self) -> int | None:
        """Singular values of W above 1e-4 of the largest; None without a W."""
        if self.W is None:
            return None
        s = np.linalg.svd(self.W, compute_uv=False)
        return int((s > RANK * s[0]).sum()) if s[0] > 0 else 0

    @lazy
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
        from attsvm.certificate.certify import certify
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
        return {
            "status": self.status,
            "message": self.message,
            "norm": self.norm.name,
            "W": None if W is None else W.tolist(),
            "value": None if W is None else number(self.norm.value(W)),
            "lower": number(self.lower),
            "upper": number(self.upper),
            "gap": number(self.gap),
            "C": number(self.budget),
            "margins": self.margins.tolist(),
            "multipliers": self.multipliers.tolist(),
            "rows": rows.tolist(),
            "tight": {
                "rows": rows[verdict.tight].tolist(),
                "undecided": rows[verdict.undecided].tolist(),
                "how": verdict.how,
            },
            "rank": self.rank,
            "proof": self.proof,
            "residual": number(self.residual),
            "moved": number(self.moved),
        }

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


def number(value: float) -> float | None:
    """A float for JSON: None for infinities and NaN."""
    return float(value) if np.isfinite(value) else None


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
    budget: float = np.inf,
    residual: float = 0.0,
    proof: Literal["numerical", "exact"] | None = None,
    farkas: NDArray[np.object_] | None = None,
    reach: float = 0.0,
    moved: float = 0.0,
) -> Certificate:
    """The one place where a Certificate is made: its status follows from what is proved."""
    if lower < _LEAST:  # below the normal floats rounding is no share of a number any more
        lower = 0.0
    status: Status = "stalled"
    if proof is not None:
        status = "infeasible"
    elif upper == 0.0 or upper <= lower * (1 + tolerance):
        status = "optimal"
    record: Certificate = object.__new__(Certificate)
    # All fields at once: a stack makes thousands, and setting them one by one costs more than
    # the bounds.
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
        "residual": residual,
        "proof": proof,
        "budget": budget,
        "farkas": farkas,
        "reach": reach,
        "moved": moved,
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

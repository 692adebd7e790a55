"""Which margins are met with equality at the solution: certified, not thresholded.

Where the norm is uniformly convex a small gap confines the solution: every feasible W of norm up
to `upper` lies within `norm.ball` of W*, so a slack beyond ‖Δ_k‖‖z_k‖ times that is surely loose.
The combined rows A*λ are confined likewise by `norm.dual_ball`; when the rows that may be tight
are independent, no optimal multiplier is further from λ than that over their smallest singular
value σ, so a λ_k beyond it is positive in every optimum: surely tight. What remains is settled in
exact arithmetic on small Frobenius problems, or stays undecided.

Elsewhere (nuclear, spectral, max, l1) solutions need not be unique and tight rows depend on the
solution: a verdict is about this solution, tight when λ_k forces the slack of every one to be
small.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ldexp
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.memory import HEADROOM, available
from attsvm._utils.result import Result, Summary
from attsvm.certificate.bounds import exponent, length, margin_error
from attsvm.certificate.feasibility_repair import least_singular
from attsvm.norms.norm import UNIT

if TYPE_CHECKING:
    from attsvm.certificate import Certificate

# Where solutions are not unique: a slack below this share of b counts as met.
_MET = 1e-4
# Rows that may be tight, beyond which their Gram is not formed: its eigenvalues take minutes.
_MOST = 8000
# Matrices of that size in memory at once.
_GRAMS = 4
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
    if _GRAMS * 8.0 * count**2 > HEADROOM * available():
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

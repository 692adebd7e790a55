"""solve() and certify(): the Certificate of a problem, and that of a given W."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from attsvm import solvers
from attsvm._utils.expected import expect, number, positive, shown
from attsvm.certificate import Certificate
from attsvm.certificate import certify as certify_answer
from attsvm.certificate.bounds import exponent
from attsvm.certificate.certificate import soft_lower
from attsvm.errors import BadTokens, ConvergenceWarning, Unsupported
from attsvm.norms import Norm, check_shape, norm_of
from attsvm.problem.problem import MIDDLE, Problem
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens
from attsvm.problem.weights import WeightBlocks
from attsvm.solvers.solver import Answer, Solver, answer_of, zero_row

MAKE = "Problem.of(tokens, kept) or Problem.from_rows(differences, queries) makes one"
# A solver by name, as a record or as a function; None: the norm's default.
Chosen: TypeAlias = str | Solver | Callable[..., Any] | None


def solve(
    problem: Problem,
    norm: str | Norm = "frobenius",
    *,
    tol: float | None = None,
    C: float | None = None,
    solver: Chosen = None,
) -> Certificate:
    """The Certificate of the least-norm W that meets the problem's rows.

        min ‖W‖  s.t.  Δ_kᵀ W z_k ≥ b_k,  Δ_lᵀ W z_l = c_l

    norm: a name such as "frobenius", "nuclear", "l1.75", or a custom Norm. tol: the certified
    relative gap asked for (1e-8; 1e-6 for nuclear and spectral). C: a budget on the multipliers,
    for data that cannot be separated: min ½‖W‖² + C Σ ξ_k. solver: a name of
    `attsvm.solvers.SOLVERS`, a Solver, or a function (problem, norm, tol=…) -> Answer.

    Returns a Certificate whatever the outcome; `.require()` raises when it is not optimal. A
    solve that stops before the tolerance also warns.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, [0]))
    >>> [round(float(x), 5) for x in best.W.ravel()]
    [-0.09901, 0.9901]
    """
    expect(problem, Problem, "problem", make=MAKE)
    geometry = norm_of(norm)
    check_shape(geometry, problem.shape)
    goal = geometry.tolerance if tol is None else positive(tol, "tol")
    budget = np.inf if C is None else positive(C, "C")
    method = pick(geometry, solver, budget)
    answer = None if budget < np.inf else zero_row(problem)
    if answer is None:
        answer = _run(method, problem, geometry, goal, budget)
    pair = answer.multipliers, answer.tie_multipliers
    result = certify_answer(problem, geometry, answer.W, *pair, tol=goal, budget=budget)
    _warn_if_stalled(result)
    return result


def _warn_if_stalled(found: Certificate) -> None:
    if found.status == "stalled":
        said = f"{found.message} (asked for {found.tolerance:.1e})"
        warnings.warn(said, ConvergenceWarning, stacklevel=3)


@dataclass(frozen=True, eq=False)
class Certificates:
    """The certificates of selections of one set of tokens: each problem is solved once."""

    tokens: Tokens
    known: dict[tuple[bytes, type[Norm], str, bool], Certificate] = field(default_factory=dict)

    def of(
        self, keep: Kept, norm: str | Norm = "frobenius", *, labels: bool = False
    ) -> Certificate:
        """The certificate of `Problem.of` at this selection, or of `Problem.of_labels`.

        Warns as `solve` does, at every call.
        """
        keep, geometry = Selection.of(self.tokens, keep), norm_of(norm)
        key = keep.kept.tobytes(), type(geometry), geometry.name, labels
        if key in self.known:
            _warn_if_stalled(self.known[key])
        else:
            posed = Problem.of_labels if labels else Problem.of
            self.known[key] = solve(posed(self.tokens, keep), geometry)
        return self.known[key]


def _run(method: Solver, problem: Problem, norm: Norm, tol: float, budget: float) -> Answer:
    """The answer of a solver, which sees keys, queries, right-hand sides and C, well scaled.

    With keys 2^a K, queries 2^q Q and right-hand sides 2^s r the problem of (K, Q, r) has the
    solution W·2^(a + q − s), and C·2^(2(a + q) − s) for C. Beyond a moderate size C is as good as
    none, or as zero: λ then lies far below it, or grows with it.
    """
    soft, scaled, a, q, s = budget < np.inf, problem, 0, 0, 0
    if not problem.well_scaled:
        a, q = exponent(problem.keys), exponent(problem.queries)
        s = exponent(np.concatenate([problem.b, problem.c]))
        scaled = replace(
            problem,
            keys=np.ldexp(problem.keys, -a),
            queries=np.ldexp(problem.queries, -q),
            b=np.ldexp(problem.b, -s),
            c=np.ldexp(problem.c, -s),
            c_error=np.ldexp(problem.c_error, -s),
        )
        budget = _shifted(budget, 2 * (a + q) - s) if soft else budget
    cap = min(max(budget, MIDDLE[0]), MIDDLE[1]) if soft else budget
    # What overflows on the way to an answer is no fault of it: the certificate judges.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        options = {"budget": cap} if method.soft else {}
        found = answer_of(method.run(scaled, norm, tol=tol, **options), method, scaled)
    W, lam, mu = found.W, found.multipliers, found.tie_multipliers
    if cap != budget:
        shares = (1.0, budget / cap)
        pairs = [(np.minimum(lam * share, budget), mu * share) for share in shares]
        lam, mu = max(pairs, key=lambda pair: soft_lower(scaled, norm, *pair))
    if scaled is not problem:
        W = None if W is None else np.ldexp(W, s - a - q)
        back = s - 2 * (a + q) if soft else 0  # without a budget any multiple of λ serves
        lam, mu = np.ldexp(lam, back), np.ldexp(mu, back)
    return Answer(W, lam, mu, found.proof)


def _shifted(x: float, e: int) -> float:
    """x · 2^e, kept within the floats."""
    return float(np.clip(np.ldexp(x, int(np.clip(e, -900, 900))), 1e-300, 1e300))


def pick(norm: Norm, solver: Chosen, budget: float) -> Solver:
    """The solver asked for, or the default of the norm. Raises Unsupported unless it fits."""
    if solver is None:
        solver = "auto"
    if isinstance(solver, str):
        if solver not in solvers.SOLVERS:
            raise Unsupported(
                f"unknown solver {shown(solver)}: known are {', '.join(solvers.SOLVERS)}"
            )
        name, method = f"solver {solver!r}", solvers.SOLVERS[solver]
    elif isinstance(solver, Solver) or (callable(solver) and not isinstance(solver, type)):
        method = solver if isinstance(solver, Solver) else Solver.of(solver)
        name = f"solver {method.purpose!r}"
    else:
        raise Unsupported(
            "a solver is a name, a Solver or a function (problem, norm, tol=…) -> Answer; "
            f"this is {shown(solver)}"
        )
    soft = budget < np.inf
    if method.takes(norm) and (method.soft or not soft):
        return method
    fitting = {key: other for key, other in solvers.SOLVERS.items() if other.takes(norm)}
    if not method.takes(norm):
        raise Unsupported(f"{name} does not take norm {norm.name}: {', '.join(fitting)} do")
    words = ", ".join(key for key, other in fitting.items() if other.soft)
    raise Unsupported(f"{name} takes no budget C in norm {norm.name}: {words} do")


def certify(
    problem: Problem,
    norm: str | Norm,
    W: Any,
    multipliers: Any = None,
    tie_multipliers: Any = None,
    *,
    tol: float | None = None,
    budget: float = np.inf,
) -> Certificate:
    """The Certificate that (W, λ, μ) supports, recomputed from the problem's data.

    W is scaled to worst margin 1 and, with ties or zero right-hand sides, corrected by the least
    change that restores them, whose norm enters `upper`. Without multipliers the problem is solved
    for them, so that the lower bound is the best there is, and the gap says how far W is from the
    least norm.

    Parameters
    ----------
    problem : Problem
        The margins and ties.
    norm : str or Norm
        The norm that is minimized.
    W : array (d, dq) or None
        A candidate at any scale; with multipliers None claims nothing feasible. Without
        multipliers it may be a prompt (d,), a pair or dict of factors K and Q, or a tensor.
    multipliers : array (m,), optional
        λ at any scale; negative entries count as 0.
    tie_multipliers : array (l,), optional
        μ of any sign; default: zeros.
    tol : float, optional
        The gap up to which the certificate is optimal; default: that of the norm.
    budget : float, default: inf
        C of a soft margin.

    Returns
    -------
    Certificate

    Raises
    ------
    BadTokens
        If the numbers of multipliers, margins and ties differ.
    Unsupported
        If tol or budget is not positive, or the norm does not exist.

    Examples
    --------
    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> problem = attsvm.Problem.of(tokens, [0])
    >>> found = attsvm.certify(problem, "frobenius", [[0.0], [3.0]], [0.0, 1.0])
    >>> found.status, round(found.lower, 9), round(found.upper, 9)
    ('optimal', 1.0, 1.0)
    >>> own = attsvm.certify(problem, "frobenius", [3.0, 4.0])
    >>> own.status, round(own.lower, 9), round(own.upper, 9)
    ('stalled', 1.0, 5.0)
    """
    expect(problem, Problem, "problem", make=MAKE)
    if multipliers is not None:
        return certify_answer(
            problem, norm, W, multipliers, tie_multipliers, tol=tol, budget=budget
        )
    if tie_multipliers is not None:
        raise BadTokens("multipliers of ties are given without those of margins: give both or none")
    matrix = WeightBlocks.of(W, problem.shape).matrix
    with warnings.catch_warnings():
        # A bound that stops early is still one: the certificate says how far apart the two are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = solve(problem, norm, tol=tol, C=None if number(budget) == np.inf else budget)
    return certify_answer(
        problem, norm, matrix, best.multipliers, best.tie_multipliers, tol=tol, budget=budget
    )

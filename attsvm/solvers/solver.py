"""What solvers share: the rows of a problem as plain arrays, and the answer they hand back."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.result import Result, Summary
from attsvm.errors import Unsupported
from attsvm.norms import Norm
from attsvm.problem.problem import SMALLEST_ROW, Problem


@dataclass(frozen=True, repr=False)
class Answer(Result):
    """An untrusted pair: W (d, dq), multipliers λ (m,) and tie multipliers μ (l,).

    `proof` says that the solver takes (λ, μ) for a proof that no W exists. Nothing here is
    believed before `certify` has judged it.

    >>> import numpy as np, attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> def by_hand(problem, norm, *, tol):
    ...     return attsvm.Answer(np.array([[0.0], [1.0]]), np.array([0.0, 1.0]), np.empty(0))
    >>> attsvm.solve(attsvm.Problem.of(tokens, [0]), solver=by_hand).status  # judged, not believed
    'optimal'
    """

    W: Floats | None
    multipliers: Floats
    tie_multipliers: Floats
    proof: bool = False

    def _card(self) -> Summary:
        W = "no W" if self.W is None else f"W {self.W.shape}"
        said = f"{W}, {len(self.multipliers):,} multipliers, {len(self.tie_multipliers):,} of ties"
        return Summary("Answer", said, {"said to prove that no W exists": self.proof}, brief=True)


def any_norm(norm: Norm) -> bool:
    """Takes every norm."""
    return True


@dataclass(frozen=True)
class Solver:
    """One way to solve: what it is good for, the norms it takes, whether it takes a budget.

    run(problem, norm, tol=…, budget=…) -> Answer; budget is left out where `soft` is False.
    promises: the least gap that it can be asked for, where that is more than the norm's tolerance.

    >>> from attsvm.solvers import SOLVERS
    >>> SOLVERS["newton"].soft, SOLVERS["newton"].purpose
    (True, 'many rows')
    """

    purpose: str
    takes: Callable[[Norm], bool]
    run: Callable[..., Answer]
    soft: bool = False
    promises: float = 0.0

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Solver:
        """The solver of a custom function: function(problem, norm, tol=…) -> Answer.

        A function with a parameter `budget` takes soft margins too. It may return (W, λ), or
        (W, λ, μ) with multipliers of ties, in place of an Answer.
        """
        soft = "budget" in inspect.signature(function).parameters
        name = getattr(function, "__name__", type(function).__name__)
        return cls(f"{name}, given", any_norm, function, soft)


def answer_of(found: Any, solver: Solver, problem: Problem) -> Answer:
    """What a solver returned, as an Answer. Raises Unsupported for anything else."""
    if isinstance(found, Answer):
        return found
    if isinstance(found, tuple) and len(found) in (2, 3):
        W, lam, mu = (*found, np.zeros(problem.ties))[:3]
        return Answer(W, lam, mu)
    raise Unsupported(
        f"solver {solver.purpose!r} returned {type(found).__name__}: it must return an Answer, "
        "or a tuple (W, multipliers)"
    )


@dataclass(frozen=True)
class RowArrays:
    """Margins and then ties of a problem as arrays; rows that are exactly zero are left out.

    D (k, d) differences, query (k,), z (g, dq) queries, norms (k,) ‖Δ‖‖z‖, b (k,) right-hand
    sides, free (k,) True on ties, place (k,) where each row stands among margins and then ties.
    """

    D: Floats
    z: Floats
    query: Ints
    norms: Floats
    b: Floats
    free: Bools
    place: Ints
    m: int
    total: int

    @classmethod
    def of(cls, problem: Problem, index: Ints | None = None) -> RowArrays:
        """The rows of the margins in `index` (all without it) and of every tie."""
        D, query, norms, b = problem.differences(index), problem.query, problem.row_norms, problem.b
        margins: Ints = np.arange(problem.m)
        if index is not None:
            margins, query, norms, b = index, query[index], norms[index], b[index]
        free = np.zeros(len(margins), dtype=bool)
        place = margins
        if problem.ties:
            D = np.concatenate([D, problem.tie_differences()])
            query = np.concatenate([query, problem.tie_query])
            norms = np.concatenate([norms, problem.tie_norms])
            b = np.concatenate([b, problem.c])
            free = np.concatenate([free, np.ones(problem.ties, dtype=bool)])
            place = np.concatenate([place, problem.m + np.arange(problem.ties)])
        if not problem.smallest > 0 or (problem.ties and not problem.tie_norms.all()):
            live = norms > 0
            D, query, norms, b = D[live], query[live], norms[live], b[live]
            free, place = free[live], place[live]
        return cls(
            D, problem.queries, query, norms, b, free, place, problem.m, problem.m + problem.ties
        )

    def part(self, index: Ints) -> RowArrays:
        """The rows of `index`, with their places among these rows."""
        D, query, norms = self.D[index], self.query[index], self.norms[index]
        k = len(self.D)
        return RowArrays(D, self.z, query, norms, self.b[index], self.free[index], index, k, k)

    @property
    def Z(self) -> Floats:
        """The query of each row (k, dq)."""
        return self.z[self.query]

    def adjoint(self, lam: Floats) -> Floats:
        """Σ λ_k Δ_k z_kᵀ (d, dq)."""
        return self.D.T @ (lam[:, None] * self.Z)

    def spread(self, lam: Floats) -> tuple[Floats, Floats]:
        """The multipliers of all margins (m,) and all ties (l,) from those of these rows."""
        if len(lam) == self.total:
            return lam[: self.m], lam[self.m :]
        out = np.zeros(self.total)
        out[self.place] = lam
        return out[: self.m], out[self.m :]

    def features(self) -> Floats:
        """The rows as unit vectors (k, d·dq)."""
        unit = self.D / self.norms[:, None]
        return (unit[:, :, None] * self.Z[:, None, :]).reshape(len(unit), -1)


def zero_row(problem: Problem) -> Answer | None:
    """The proof that a row of norm zero with a nonzero right-hand side gives, if there is one.

    A dropped token that equals the kept one, or a query of zero, asks 0 ≥ b > 0.
    """
    if problem.smallest >= SMALLEST_ROW and not problem.ties:
        return None
    lam, mu = np.zeros(problem.m), np.zeros(problem.ties)
    problem.check_sizes()
    for k in ((problem.row_norms < SMALLEST_ROW) & (problem.b > 0)).nonzero()[0]:
        lam[k] = 1.0
        return Answer(None, lam, mu, True)
    if problem.ties:
        dead = (problem.tie_norms < SMALLEST_ROW) & (np.abs(problem.c) > problem.c_error)
        if dead.any():
            place = int(dead.argmax())
            mu[place] = np.sign(problem.c[place])
            return Answer(None, lam, mu, True)
    return None

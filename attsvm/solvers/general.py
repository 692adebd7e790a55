"""Any norm, by `value`, `dual` and `dual_maximizer` alone: quasi-Newton, then cutting planes.

    min ‖W‖  s.t.  A(W) ≥ b        max bᵀλ  s.t.  λ ≥ 0,  ⟨A*λ, S⟩ ≤ 1 for every S of norm 1

`dual_maximizer` names the S that a given λ violates most. With the S found so far the right side is
a linear program; its multipliers w_S give W = Σ w_S S of norm at most Σ w_S. The program is asked
half-way between its own λ and the best one so far, where a new S cuts deeper. A dual norm without
kinks would need many S, so ½‖A*λ‖²_dual − bᵀλ is first followed by its gradients, which are the
same S. With a budget C the square stays: it enters the program by its tangents.

Theory: cutting planes [kelley1960cutting].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.solvers.linear_program import BYTES, OPTIONS
from attsvm.solvers.solver import Answer
from attsvm.solvers.unit_rows import BestPair, Method, SoftRows, UnitRows, settle
from attsvm.solvers.working_set import answer_with

# (best so far, W, λ) -> the better of the two.
Judge = Callable[[BestPair, Floats, Floats], BestPair]

# Gradients taken at the start, and linear programs, at most.
GRADIENTS = 400
PROGRAMS = 400
# Programs without a gap smaller by a tenth, after which rounding or the size is what is left.
PATIENCE = 60
# Where the program is asked: this share of the way from its own λ to the best.
INWARD = 0.5
# Bounds on λ beyond this are as good as none to a linear program.
LARGEST = 1e7


def by_cuts(problem: Problem, norm: Norm, *, tol: float, budget: float = np.inf) -> Answer:
    """The answer in any norm; a proof of infeasibility is the Frobenius one."""
    return answer_with(method_of(norm), problem, norm, tol=tol, budget=budget)


def method_of(norm: Norm) -> Method:
    """Quasi-Newton and cutting planes as the method of a norm."""
    return Method(
        partial(inner, norm=norm),
        inner_soft,
        lambda k, N: BYTES * k * (2 * N + GRADIENTS + PROGRAMS),
    )


def inner(
    rows: UnitRows, *, norm: Norm, tol: float, W0: Floats, lam0: Floats
) -> tuple[Floats, Floats]:
    """The best (W, λ) found for min ‖W‖, D_kᵀ W Z_k ≥ b_k (= on free rows)."""

    def judge(best: BestPair, W: Floats, lam: Floats) -> BestPair:
        return best.judged(W=W, lam=lam).judged(W=settle(rows, W))

    cuts = CuttingPlanes(rows, norm, W0)
    best = cuts.descend(judge(BestPair(rows, norm, W0, lam0), W0, lam0), judge, tol)
    best = cuts.close(best, judge, tol)
    return best.W, best.lam


def inner_soft(soft: SoftRows, *, tol: float, W0: Floats, lam0: Floats) -> tuple[Floats, Floats]:
    """The best (W, λ) found for min ½‖W‖² + Σ cap ξ; W0, lam0: the Frobenius pair."""

    cuts = CuttingPlanes(soft.rows, soft.norm, W0, soft.cap)
    best = cuts.descend(soft.best(W0, lam0), soft.judged, tol)
    best = cuts.close(best, soft.judged, tol)
    return best.W, best.lam


class CuttingPlanes:
    """The matrices S found so far and their values on the rows, in units in which ‖W0‖ is 1.

    In those units y stands for λ/‖W0‖², and its bounds are cap/‖W0‖² (none without a budget).
    """

    def __init__(self, rows: UnitRows, norm: Norm, W0: Floats, cap: Floats | None = None) -> None:
        self.rows, self.norm, self.soft = rows, norm, cap is not None
        self.unit = float(norm.value(W0))
        high = np.full(len(rows.b), np.inf) if cap is None else cap / self.unit**2
        low = np.where(rows.free, -np.inf, 0.0)
        self.bounds = np.column_stack([low, np.where(high < LARGEST, high, np.inf)])
        E = np.eye(W0.size).reshape(-1, *W0.shape)
        E = E * (self.unit / np.asarray(norm.value(E)))[:, None, None]
        self.S = [*E, *-E]  # single entries: with them the first program is bounded
        self.values = [rows.values(S) for S in self.S]
        self.tangents: list[float] = []

    def size(self, y: Floats) -> float:
        """‖A*y‖_dual."""
        return self.unit * float(self.norm.dual(self.rows.adjoint(y)))

    def ask(self, y: Floats) -> tuple[float, Floats]:
        """‖A*y‖_dual and the S that attains it, which joins the others."""
        G = self.rows.adjoint(y)
        S = self.unit * np.asarray(self.norm.dual_maximizer(G))
        size = self.unit * float(self.norm.dual(G))
        self.S.append(S)
        self.values.append(self.rows.values(S))
        self.tangents.append(size)
        return size, S

    def descend(self, best: BestPair, judge: Judge, tol: float) -> BestPair:
        """`best` after L-BFGS on ½‖A*y‖²_dual − bᵀy: the end of the way for a smooth dual norm."""
        from scipy.optimize import minimize

        if best.gap <= tol:
            return best
        square, b = self.unit**2, self.rows.b
        found = [best]

        def objective(y: Floats) -> tuple[float, Floats]:
            size, S = self.ask(y)
            found[0] = judge(found[0], size * S, square * y)
            return 0.5 * size * size - float(b @ y), size * self.values[-1] - b

        def enough(intermediate_result: Any) -> None:
            if found[0].gap <= tol:
                raise StopIteration

        y = best.lam / square
        size, worth = self.size(y), float(b @ y)
        if size > 0 and worth > 0:
            y = y * (worth / size**2)
        y = np.clip(y, self.bounds[:, 0], self.bounds[:, 1])
        limits: Any = {"maxiter": GRADIENTS, "maxfun": GRADIENTS, "maxcor": 20}
        limits |= {"ftol": 1e-16, "gtol": 1e-12}
        bounds: Any = self.bounds
        minimize(
            objective,
            y,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=limits,
            callback=enough,
        )
        return found[0]

    def close(self, best: BestPair, judge: Judge, tol: float) -> BestPair:
        """`best` after linear programs, each with one or two S more."""
        square, mark, stale = self.unit**2, np.inf, 0
        for _ in range(PROGRAMS):
            stale = 0 if best.gap < 0.9 * mark else stale + 1
            mark = min(mark, best.gap) if stale else best.gap
            if best.gap <= tol or stale > PATIENCE:
                break
            found = self.program()
            if found is None:
                break
            y, W, size = found
            best = judge(best, W, square * y)
            inside = best.lam / square
            if not self.soft:
                inside = inside / (self.size(inside) or 1.0)
            middle = INWARD * inside + (1 - INWARD) * y
            reached, S = self.ask(middle)
            best = judge(best, reached * S, square * middle)
            if float(self.values[-1] @ y) <= size * (1 + 1e-12):
                self.ask(y)
        return best

    def program(self) -> tuple[Floats, Floats, float] | None:
        """(y, W, what bounds ⟨A*y, S⟩) of the linear program; None where it failed.

        Without a budget: max bᵀy, ⟨A*y, S⟩ ≤ 1. With one: max bᵀy − t, ⟨A*y, S⟩ ≤ s and
        t ≥ rs − ½r² for every size r met so far, which stand for ½s².
        """
        from scipy.optimize import linprog

        b, values = self.rows.b, np.array(self.values)
        k, J = len(b), len(values)
        cost: Any = -b
        matrix, right, bounds = values, np.ones(J), self.bounds
        if self.soft:
            r = np.unique(self.tangents)
            sizes = np.column_stack([np.zeros((len(r), k)), r, -np.ones(len(r))])
            matrix = np.vstack([np.column_stack([values, -np.ones(J), np.zeros(J)]), sizes])
            right = np.concatenate([np.zeros(J), 0.5 * r * r])
            cost = np.concatenate([-b, [0.0, 1.0]])
            bounds = np.vstack([bounds, [[0.0, np.inf], [0.0, np.inf]]])
        if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
            return None
        for way in ("highs-ds", "highs-ipm"):
            given: dict[str, Any] = {"bounds": bounds, "method": way, "options": OPTIONS}
            end: Any = linprog(cost, A_ub=matrix, b_ub=right, **given)
            if end.x is not None and end.status == 0:
                shares = -np.asarray(end.ineqlin.marginals)[:J]
                W = np.tensordot(shares, np.array(self.S), 1)
                return np.asarray(end.x)[:k], W, float(end.x[k]) if self.soft else 1.0
        return None

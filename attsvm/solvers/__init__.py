"""The solvers, by name. Each hands back an untrusted answer; `attsvm.certificate` judges it."""

from __future__ import annotations

from attsvm.norms import Norm
from attsvm.solvers.active_set import by_active_set
from attsvm.solvers.auto import solve_fitting
from attsvm.solvers.by_size import solve_frobenius
from attsvm.solvers.cutting_plane import by_cutting_planes
from attsvm.solvers.cvxpy_oracle import by_cvxpy
from attsvm.solvers.general import by_cuts
from attsvm.solvers.interior import by_interior_point, has_method
from attsvm.solvers.newton import by_newton_steps
from attsvm.solvers.solver import Solver, any_norm
from attsvm.solvers.splitting import by_splitting, has_prox


def _frobenius(norm: Norm) -> bool:
    return norm.euclidean


def _own(norm: Norm) -> bool:
    return has_method(norm)


def _mapped(norm: Norm) -> bool:
    return has_prox(norm)


def _written(norm: Norm) -> bool:
    return norm.cvxpy is not None


SOLVERS: dict[str, Solver] = {
    "frobenius": Solver("picks by size", _frobenius, solve_frobenius, soft=True),
    "active-set": Solver("small, exact", _frobenius, by_active_set),
    "cutting-plane": Solver("few unknowns", _frobenius, by_cutting_planes),
    "newton": Solver("many rows", _frobenius, by_newton_steps, soft=True),
    "interior": Solver("a norm's own method", _own, by_interior_point, soft=True),
    "splitting": Solver("many rows", _mapped, by_splitting, soft=True),
    "fitting": Solver("picks by size", any_norm, solve_fitting, soft=True),
    "general": Solver("any norm, small", any_norm, by_cuts, soft=True),
    "cvxpy": Solver("a second opinion", _written, by_cvxpy, soft=True),
}

"""The solvers, by name. Each hands back an untrusted answer; `certificate.py` judges it."""

from __future__ import annotations

from attsvm.norms import Norm
from attsvm.solvers import active_set, by_size, cutting_plane, cvxpy_oracle, interior, newton
from attsvm.solvers.solver import Solver


def _frobenius(norm: Norm) -> bool:
    return norm.name == "frobenius"


def _others(norm: Norm) -> bool:
    return norm.name != "frobenius"


def _all(norm: Norm) -> bool:
    return True


SOLVERS: dict[str, Solver] = {
    "frobenius": Solver("picks by size", _frobenius, by_size.solve, soft=True),
    "active-set": Solver("small, exact", _frobenius, active_set.solve),
    "cutting-plane": Solver("few unknowns", _frobenius, cutting_plane.solve),
    "newton": Solver("many rows", _frobenius, newton.solve, soft=True),
    "interior": Solver("every other norm", _others, interior.solve, soft=True),
    "cvxpy": Solver("a second opinion", _all, cvxpy_oracle.solve, soft=True),
}

"""The solvers, by name. Each hands back an untrusted answer; `certificate.py` judges it."""

from __future__ import annotations

from attsvm.norms import Norm
from attsvm.solvers import frobenius, interior, oracle
from attsvm.solvers.answer import Solver


def _frobenius(norm: Norm) -> bool:
    return norm.name == "frobenius"


def _others(norm: Norm) -> bool:
    return norm.name != "frobenius"


def _all(norm: Norm) -> bool:
    return True


# Modules of this folder that are not solvers of whole problems: parts of them, and the front.
SUPPORT = (
    "active_set", "answer", "cone", "coordinate", "dual_point", "duality", "entrywise",
    "enumeration", "farkas", "front", "frobenius_large", "inverse", "linear",
    "many", "newton", "normal_matrix", "nuclear", "primal_point", "soft_cone",
    "soft_margin", "soft_power", "soft_rows", "spectral", "steps", "working_set",
)  # fmt: skip

SOLVERS: dict[str, Solver] = {
    "frobenius": Solver("picks by size", _frobenius, frobenius.solve, soft=True),
    "active-set": Solver("small, exact", _frobenius, frobenius.active_set),
    "cutting-plane": Solver("few unknowns", _frobenius, frobenius.cutting_plane),
    "newton": Solver("many rows", _frobenius, frobenius.newton, soft=True),
    "interior": Solver("every other norm", _others, interior.solve, soft=True),
    "cvxpy": Solver("a second opinion", _all, oracle.solve, soft=True),
}

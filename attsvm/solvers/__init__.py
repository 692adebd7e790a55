"""The solvers, by name. Each returns an untrusted answer; `attsvm.certificate` judges it."""

from __future__ import annotations

from collections.abc import Callable

from attsvm.norms import Norm
from attsvm.solvers.auto import by_own_method, has_method, solve_auto
from attsvm.solvers.frobenius.active_set import by_active_set, by_cutting_planes
from attsvm.solvers.frobenius.newton import by_newton_steps
from attsvm.solvers.general import by_cuts
from attsvm.solvers.solver import Solver, any_norm
from attsvm.solvers.splitting import by_splitting


def _having(name: str) -> Callable[[Norm], bool]:
    """Takes the norms that have this, or say so of themselves."""
    return lambda norm: getattr(norm, name) not in (None, False)


_frobenius = _having("euclidean")

SOLVERS: dict[str, Solver] = {
    "auto": Solver("picks by norm and size", any_norm, solve_auto, soft=True),
    "active-set": Solver("small, exact", _frobenius, by_active_set),
    "cutting-plane": Solver("few unknowns", _frobenius, by_cutting_planes),
    "newton": Solver("many rows", _frobenius, by_newton_steps, soft=True),
    "interior": Solver("a norm's own method", has_method, by_own_method, soft=True),
    "splitting": Solver("many rows", _having("prox"), by_splitting, soft=True, promises=1e-3),
    "general": Solver("any norm, small", any_norm, by_cuts, soft=True, promises=1e-6),
}

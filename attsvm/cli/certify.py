"""certify: a solution file or a saved certificate, rechecked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attsvm._utils.files import load_arrays
from attsvm._utils.progress import working
from attsvm.cli.options import FAILED, command, read_norm
from attsvm.cli.output import certificate_facts, emit, leave, say
from attsvm.errors import BadTokens, Unsupported

if TYPE_CHECKING:
    from attsvm.certificate import Certificate
    from attsvm.problem.problem import Problem


@command("tokens.npz best.npz --exact")
def certify_command(
    file: Path,
    solution: Path | None = None,
    norm: str | None = None,
    problem: str | None = None,
    tol: float | None = None,
    exact: bool = False,
    json_: bool = False,
) -> None:
    """Recheck a solution file from the raw data, or a saved certificate, trusting nothing in it.

    Exit code 5: the file claims more than its arrays prove.

    Arguments
    ---------
    file : FILE
        Problem file, or a saved certificate alone.
    solution : SOLUTION
        Solution file written by solve --out.

    Options
    -------
    norm : NAME, default: what the file says
        Norm of the solution.
    problem : NAME, default: what the file says
        Problem it solves.
    exact
        Recheck in rational arithmetic.
    """
    import numpy as np

    from attsvm._utils.objects import is_outside
    from attsvm.certificate import Certificate, certify
    from attsvm.cli.problem_file import read_problem

    if tol is not None and not 0 < tol < np.inf:
        raise Unsupported(f"--tol is {tol}: it must be a positive number")
    more: dict[str, Any] = {}
    if solution is None:
        custom = norm if norm is not None and is_outside(norm) else None
        given = {"--norm": norm if custom is None else None, "--problem": problem, "--tol": tol}
        for name, value in given.items():
            if value is not None:
                raise Unsupported(f"{name} goes with a solution: a certificate says its own")
        claim = Certificate.load(file, norm=None if custom is None else read_norm(custom))
        pair = claim.W, claim.multipliers, claim.tie_multipliers
        limits = {"tol": claim.tolerance, "budget": claim.budget}
        found = certify(claim.problem, claim.norm, *pair, **limits)
        title, wrong, checked = file.name, claim.verify().reason, claim
    else:
        archive, arrays = read_problem(file), load_arrays(solution)
        if "attsvm_certificate" in arrays:
            raise BadTokens(f"{solution} is a saved certificate: recheck it alone, without {file}")
        _check_arrays(arrays, solution)
        geometry = read_norm(norm if norm is not None else str(arrays.get("norm", "frobenius")))
        kind = problem if problem is not None else str(arrays.get("problem", "selection"))
        rows = archive.problem(kind)
        _check_rows(rows, arrays, solution)
        found = certify(
            rows,
            geometry,
            None if np.isnan(arrays["W"]).all() else arrays["W"],
            arrays["multipliers"],
            arrays.get("tie_multipliers"),
            tol=tol,
            budget=float(arrays.get("C", np.inf)),
        )
        more["problem"] = kind
        title, wrong = f"{solution.name} against {file.name}", _beyond(arrays, found)
        checked = found
    if exact:
        with working("rechecking in exact arithmetic"):
            check = checked.verify(exact=True)
        more["exact"] = check.to_dict()
        wrong = wrong or check.reason
    report = {**found.to_dict(), **more, "claims": wrong or "hold"}
    emit(report, json_, certificate_facts(report, title))
    if wrong:
        say(f"{solution or file}: {wrong}")
        raise typer.Exit(FAILED)
    leave(found)


def _check_arrays(arrays: dict[str, Any], path: Path) -> None:
    """Raises BadTokens unless a solution file has its arrays, each of the right kind."""
    from attsvm._utils.arrays import numbers

    for name in ("W", "multipliers"):
        if name not in arrays:
            raise BadTokens(f"{path} has no array {name}; is it a solution file?")
    for name in {"W", "multipliers", "tie_multipliers", "lower", "upper", "C"} & set(arrays):
        numbers(arrays[name], f"{path}: {name}")
    for name in {"lower", "upper", "C", "norm", "status", "problem"} & set(arrays):
        if arrays[name].ndim:
            raise BadTokens(f"{path}: {name} has shape {arrays[name].shape}; it must be one value")
    if not float(arrays.get("C", 1.0)) > 0:
        raise BadTokens(f"{path}: C is {float(arrays['C'])}: a budget must be positive")


def _check_rows(problem: Problem, arrays: dict[str, Any], path: Path) -> None:
    """Raises BadTokens unless the solution's rows are those of the problem."""
    if arrays["W"].shape != problem.shape:
        raise BadTokens(f"{path}: W is {arrays['W'].shape}, the problem needs {problem.shape}")
    counts = (("multipliers", problem.m, "margins"), ("tie_multipliers", problem.ties, "ties"))
    for name, count, what in counts:
        if name in arrays and arrays[name].shape != (count,):
            raise BadTokens(f"{path}: {arrays[name].size} {name} for {count} {what}")
    for name, rows in (("rows", problem.rows), ("ties", problem.tie_rows)):
        if name in arrays and arrays[name].tolist() != rows.tolist():
            raise BadTokens(
                f"{path}: its {name} are not those of this problem (another selection?)"
            )


def _beyond(arrays: dict[str, Any], found: Certificate) -> str:
    """What a solution file claims beyond what its own W and multipliers support."""
    slack = 1e-12
    lower, upper = float(arrays.get("lower", 0.0)), float(arrays.get("upper", "inf"))
    if str(arrays.get("status", "")) == "infeasible" and found.status != "infeasible":
        return f"it claims that no W exists, the multipliers prove only lower {found.lower!r}"
    # Written so that a claim of NaN is refused.
    if not lower <= found.lower * (1 + slack):
        return f"it claims lower {lower!r}, the multipliers prove {found.lower!r}"
    if not upper >= found.upper * (1 - slack):
        return f"it claims upper {upper!r}, W has {found.upper!r}"
    return ""

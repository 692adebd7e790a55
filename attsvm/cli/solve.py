"""solve: a max-margin problem, certified."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from attsvm._utils.files import check_out, write_arrays
from attsvm._utils.progress import working
from attsvm.cli.options import command, read_norm
from attsvm.cli.output import certificate_facts, emit, leave
from attsvm.errors import Infeasible, Unsupported


@command("tokens.npz --norm nuclear --out best.npz")
def solve_command(
    file: Path,
    norm: str = "frobenius",
    problem: str = "selection",
    tol: float | None = None,
    C: float | None = None,
    solver: str | None = None,
    out: Path | None = None,
    certificate: Path | None = None,
    force: bool = False,
    json_: bool = False,
) -> None:
    """Solve a max-margin problem and certify the answer.

    Options
    -------
    problem : NAME
        One of {problems}.
    C : X, default: hard margins
        Budget of a soft margin.
    solver : NAME, default: automatic
        Solver by name, or FILE.py:NAME.

    Output
    ------
    out : FILE
        Write the result to this .npz file.
    certificate : FILE
        Write the certificate, with its rows, to this .npz.
    """
    from attsvm._utils.objects import is_outside, load_object
    from attsvm.cli.problem_file import read_problem, solution_arrays
    from attsvm.solvers.solve import solve

    for target in (out, certificate):
        if target is not None:
            check_out(target, force=force)
    if out is not None and certificate is not None and out.resolve() == certificate.resolve():
        raise Unsupported(f"--out and --certificate both name {out}: give two names")
    archive, geometry = read_problem(file), read_norm(norm)
    method: Any = solver
    if solver is not None and is_outside(solver):
        method = load_object(solver, "a solver")
    start = time.perf_counter()
    try:
        rows = archive.problem(problem)
    except Infeasible:  # of the decoder, which the relaxed problem needs: show that proof
        problem, C, method = "labels", None, None
        rows = archive.problem(problem)
    with working(f"solving {rows.m} margins"):
        best = solve(rows, geometry, tol=tol, C=C, solver=method)
    report = {**best.to_dict(), "problem": problem, "seconds": time.perf_counter() - start}
    if out is not None:
        write_arrays(out, {**solution_arrays(best), "problem": problem}, force=force)
    if certificate is not None:
        best.save(certificate, force=force)
    emit(report, json_, certificate_facts(report, f"{problem} problem of {file.name}"))
    leave(best)

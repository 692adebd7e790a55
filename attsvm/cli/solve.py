"""solve: a max-margin problem, certified."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from attsvm._utils.files import check_out, write_arrays
from attsvm._utils.progress import working
from attsvm.cli.options import (
    OUTPUT,
    PROBLEMS,
    File,
    Force,
    Json,
    NormName,
    Out,
    Tol,
    app,
    option,
    read_norm,
)
from attsvm.cli.output import certificate_facts, emit, leave
from attsvm.errors import Infeasible, Unsupported


@app.command("solve", epilog="Example: attsvm solve tokens.npz --norm nuclear --out best.npz")
def solve_command(
    file: File,
    norm: NormName = "frobenius",
    kind: Annotated[
        str, option("--problem", "NAME", f"One of {', '.join(PROBLEMS)}.", names=PROBLEMS)
    ] = "selection",
    tol: Tol = None,
    C: Annotated[
        float | None, option("--C", "X", "Budget of a soft margin.", show_default="hard margins")
    ] = None,
    solver: Annotated[
        str | None,
        option("--solver", "NAME", "Solver by name, or FILE.py:NAME.", show_default="automatic"),
    ] = None,
    out: Out = None,
    certificate: Annotated[
        Path | None,
        option(
            "--certificate", "FILE", "Write the certificate, with its rows, to this .npz.", OUTPUT
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Solve a max-margin problem and certify the answer."""
    from attsvm._utils.objects import is_outside, load_object
    from attsvm.cli.problem_file import read_problem, solution_arrays
    from attsvm.solvers.solve import solve
    from attsvm.solvers.solve_sets import solve_sets

    for target in (out, certificate):
        if target is not None:
            check_out(target, force=force)
    if out is not None and certificate is not None and out.resolve() == certificate.resolve():
        raise Unsupported(f"--out and --certificate both name {out}: give two names")
    if kind == "any" and (C is not None or solver is not None):
        raise Unsupported("--problem any takes neither --C nor --solver: leave them out")
    archive = read_problem(file)
    geometry = read_norm(norm)
    method: Any = solver
    if solver is not None and is_outside(solver):
        method = load_object(solver, "a solver")
    more: dict[str, Any] = {}
    start = time.perf_counter()
    if kind == "any":
        with working("solving every choice"):
            choice = solve_sets(archive.tokens, archive.selection, geometry, tol=tol)
        best = choice.certificate
        more = {
            "winners": choice.winners.tolist(),
            "lower_all": choice.lower,
            "solved": choice.solved,
            "choices": choice.total,
        }
    else:
        try:
            rows = archive.problem(kind)
        except Infeasible:  # of the decoder, which the relaxed problem needs: show that proof
            kind, rows, C, method = "labels", archive.problem("labels"), None, None
        with working(f"solving {rows.m} margins"):
            best = solve(rows, geometry, tol=tol, C=C, solver=method)
    seconds = time.perf_counter() - start
    if out is not None:
        winners = {"winners": choice.winners} if kind == "any" else {}
        write_arrays(out, {**solution_arrays(best), "problem": kind, **winners}, force=force)
    if certificate is not None:
        best.save(certificate, force=force)
    report = {**best.to_dict(), "problem": kind, **more, "seconds": seconds}
    emit(report, as_json, certificate_facts(report, f"{kind} problem of {file.name}"))
    leave(best)

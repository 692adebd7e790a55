"""solve: a max-margin problem, certified."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attsvm._utils.files import check_out, write_arrays
from attsvm._utils.progress import working
from attsvm.cli.parts import summary
from attsvm.cli.parts.options import (
    File,
    Force,
    Json,
    Kind,
    NormName,
    Out,
    Tol,
    app,
    leave,
    read_norm,
    show,
)
from attsvm.errors import Infeasible, Unsupported


@app.command("solve", epilog="Example: attsvm solve tokens.npz --norm nuclear --out best.npz")
def solve_command(
    file: File,
    norm: NormName = "frobenius",
    problem: Kind = "selection",
    tol: Tol = None,
    C: Annotated[
        float | None, typer.Option("--C", metavar="X", help="Budget of a soft margin.")
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option("--solver", metavar="NAME", help="Solver by name, or FILE.py:NAME."),
    ] = None,
    out: Out = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--certificate",
            metavar="FILE",
            help="Write the certificate, with its rows, to this .npz.",
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Solve a max-margin problem and certify the answer."""
    import numpy as np

    from attsvm._utils.objects import is_outside, load_object
    from attsvm.cli.parts.archive import read_problem, solution_arrays
    from attsvm.solvers.solve import solve
    from attsvm.solvers.solve_sets import solve_sets

    for target in (out, certificate):
        if target is not None:
            check_out(target, force=force)
    if out is not None and certificate is not None and out.resolve() == certificate.resolve():
        raise Unsupported(f"--out and --certificate both name {out}: give two names")
    if problem == "any" and (C is not None or solver is not None):
        raise Unsupported("problem 'any' takes neither C nor a solver: leave them out")
    archive = read_problem(file)
    geometry = read_norm(norm)
    method: Any = solver
    if solver is not None and is_outside(solver):
        method = load_object(solver, "a solver")
    extra: dict[str, Any] = {}
    start = time.perf_counter()
    if problem == "any":
        with working("solving every choice"):
            choice = solve_sets(archive.tokens, archive.selection, geometry, tol=tol)
        best, extra = (
            choice.certificate,
            {
                "winners": choice.winners.tolist(),
                "lower_all": summary.number(choice.lower),
                "solved": choice.solved,
                "choices": choice.total,
            },
        )
    else:
        try:
            rows = archive.problem(problem)
        except Infeasible:  # of the decoder, which the relaxed problem needs: show that proof
            problem, rows, C, method = "labels", archive.problem("labels"), None, None
        with working(f"solving {rows.m} margins"):
            best = solve(rows, geometry, tol=tol, C=C, solver=method)
    seconds = time.perf_counter() - start
    if out is not None:
        saved: dict[str, Any] = {"problem": np.str_(problem)}
        if problem == "any":
            saved["winners"] = np.asarray(extra["winners"])
        write_arrays(out, {**solution_arrays(best), **saved}, force=force)
    if certificate is not None:
        best.save(certificate, force=force)
    report = {**summary.describe(best), "problem": problem, **extra, "seconds": seconds}
    show(report, as_json, f"{problem} problem of {file.name}")
    leave(best)

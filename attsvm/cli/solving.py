"""solve, certify, example, optima."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from attsvm.certificate import Certificate, certify
from attsvm.cli.parts import summary
from attsvm.cli.parts.archive import read_problem, solution_arrays
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
    print_json,
    show,
)
from attsvm.data import EXAMPLES, FAMILIES, SENTENCES, TEXTS
from attsvm.errors import BadTokens, Inseparable, Unsupported
from attsvm.ground.files import check_out, load_arrays, write_arrays
from attsvm.ground.progress import bar, working
from attsvm.language.text import write_lines
from attsvm.norms import norm_of
from attsvm.solvers.front import solve
from attsvm.solvers.sets import solve_sets
from attsvm.theory.optima import count_selections, local_optima


@app.command("solve", epilog="Example: attsvm solve tokens.npz --norm nuclear --out best.npz")
def solve_command(
    file: File,
    norm: NormName = "frobenius",
    problem: Kind = "selection",
    tol: Tol = None,
    C: Annotated[float | None, typer.Option("--C", help="Budget of a soft margin.")] = None,
    solver: Annotated[str | None, typer.Option("--solver", help="Solver by name.")] = None,
    out: Out = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="Write the certificate, with its rows, to this .npz."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Solve a max-margin problem and certify the answer."""
    for target in (out, certificate):
        if target is not None:
            check_out(target, force=force)
    if out is not None and certificate is not None and out.resolve() == certificate.resolve():
        raise Unsupported(f"--out and --certificate both name {out}: give two names")
    if problem == "any" and (C is not None or solver is not None):
        raise Unsupported("problem 'any' takes neither C nor a solver: leave them out")
    archive = read_problem(file)
    geometry = norm_of(norm)
    extra: dict[str, Any] = {}
    start = time.perf_counter()
    if problem == "any":
        with working("solving every choice"):
            choice = solve_sets(archive.tokens, archive.selection, geometry, tol=tol)
        best, extra = choice.certificate, {
            "winners": choice.winners.tolist(), "lower_all": summary.number(choice.lower),
            "solved": choice.solved, "choices": choice.total,
        }  # fmt: skip
    else:
        try:
            rows = archive.problem(problem)
        except Inseparable:  # of the decoder, which the relaxed problem needs: show that proof
            problem, rows, C, solver = "labels", archive.problem("labels"), None, None
        with working(f"solving {rows.m} margins"):
            best = solve(rows, geometry, tol=tol, C=C, solver=solver)
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


@app.command("certify", epilog="Example: attsvm certify tokens.npz best.npz --exact")
def certify_command(
    file: Annotated[Path, typer.Argument(help="Problem file, or a saved certificate alone.")],
    solution: Annotated[
        Path | None, typer.Argument(help="Solution file written by solve --out.")
    ] = None,
    norm: Annotated[str | None, typer.Option("--norm", help="Norm, unless the file says.")] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Problem, unless the file says.")
    ] = None,
    tol: Tol = None,
    exact: Annotated[bool, typer.Option("--exact", help="Recheck in rational arithmetic.")] = False,
    as_json: Json = False,
) -> None:
    """Recheck a solution file from the raw data, or a saved certificate, trusting nothing in it."""
    if tol is not None and not 0 < tol < np.inf:
        raise Unsupported(f"tol is {tol}: it must be a positive number")
    if solution is None:
        for option, given in (("--norm", norm), ("--problem", problem), ("--tol", tol)):
            if given is not None:
                raise Unsupported(f"{option} goes with a solution: a certificate says its own")
        _certify_saved(file, exact=exact, as_json=as_json)
        return
    archive = read_problem(file)
    arrays = load_arrays(solution)
    if "attsvm_certificate" in arrays:
        raise BadTokens(f"{solution} is a saved certificate: recheck it alone, without {file}")
    summary.check_solution(arrays, solution)
    geometry = norm_of(norm if norm is not None else str(arrays.get("norm", "frobenius")))
    problem = problem if problem is not None else str(arrays.get("problem", "selection"))
    rows = archive.problem(problem, arrays.get("winners"))
    summary.check_rows(rows, arrays, solution)
    W = None if np.isnan(arrays["W"]).all() else arrays["W"]
    budget = float(arrays.get("C", np.inf))
    found = certify(
        rows, geometry, W, arrays["multipliers"], arrays.get("tie_multipliers"), tol=tol,
        budget=budget,
    )  # fmt: skip
    report = {**summary.describe(found), "problem": problem}
    wrong = summary.claims_beyond(arrays, found)
    if exact:
        with working("rechecking in exact arithmetic"):
            check = found.verify(exact=True)
        report["exact"] = summary.describe_check(check)
        wrong = wrong or check.reason
    report["claims"] = wrong or "hold"
    show(report, as_json, f"{solution.name} against {file.name}")
    _leave_judged(found, solution, wrong)


def _certify_saved(file: Path, *, exact: bool, as_json: bool) -> None:
    """Recheck a saved certificate from the rows it holds."""
    claim = Certificate.load(file)
    found = certify(
        claim.problem, claim.norm, claim.W, claim.multipliers, claim.tie_multipliers,
        tol=claim.tolerance, budget=claim.budget,
    )  # fmt: skip
    report, wrong = summary.describe(found), claim.verify().reason
    if exact:
        with working("rechecking in exact arithmetic"):
            check = claim.verify(exact=True)
        report["exact"] = summary.describe_check(check)
        wrong = wrong or check.reason
    report["claims"] = wrong or "hold"
    show(report, as_json, file.name)
    _leave_judged(found, file, wrong)


def _leave_judged(found: Certificate, file: Path, wrong: str) -> None:
    """Leave, with code 4 when the file claims more than was found."""
    if wrong:
        print(f"attsvm: {file}: {wrong}", file=sys.stderr)
        raise typer.Exit(4)
    leave(found)


_EXAMPLES = (*EXAMPLES, *SENTENCES, *TEXTS)


@app.command("example", epilog="Example: attsvm example multi-input --out tokens.npz")
def example_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(_EXAMPLES)}.")],
    out: Annotated[Path, typer.Option("--out", help="The .npz file, or .txt of sentences.")],
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed, for random families.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write one of the papers' instances as a problem file, or sentences as a text file."""
    if name in SENTENCES or (name in TEXTS and seed is None):
        lines: list[Any] = TEXTS[name]() if name in TEXTS else SENTENCES[name](seed=seed or 0)
        write_lines(out, lines, force=force)
        if as_json:
            print_json({
                "status": "optimal", "example": name, "file": str(out), "lines": len(lines),
            })  # fmt: skip
        else:
            print(f"wrote {out}: {len(lines)} lines")
        return
    if name not in _EXAMPLES:
        raise Unsupported(f"unknown example {name!r}: known are {', '.join(_EXAMPLES)}")
    if seed is not None and name not in FAMILIES:
        drawn = ", ".join((*FAMILIES, *SENTENCES))
        raise Unsupported(f"example {name!r} is fixed and takes no seed; {drawn} do")
    arrays = EXAMPLES[name]() if seed is None else EXAMPLES[name](seed=seed)
    write_arrays(out, arrays, force=force)
    shapes = {key: list(np.shape(array)) for key, array in arrays.items()}
    report = {"status": "optimal", "example": name, "file": str(out), "arrays": shapes}
    if as_json:
        print_json(report)
    else:
        listed = ", ".join(f"{k} {tuple(np.shape(a))}" for k, a in arrays.items())
        print(f"wrote {out}: {listed}")


@app.command("optima", epilog="Example: attsvm optima tokens.npz --json")
def optima_command(
    file: File,
    norm: NormName = "frobenius",
    most: Annotated[
        int, typer.Option("--most", min=1, help="Refuse more selections than this.")
    ] = 10**7,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Selections listed at most.")] = 1000,
    as_json: Json = False,
) -> None:
    """Every selection: feasible, globally and locally optimal, with least norms."""
    archive = read_problem(file)
    if "v" not in archive.arrays:
        raise BadTokens(f"{file} has no array v: optimality needs the head's vector for scores")
    total = count_selections(archive.tokens)
    if sys.stderr.isatty():
        print(f"{total} selections", file=sys.stderr)
    start = time.perf_counter()
    with bar("selections") as progress:
        found = local_optima(
            archive.tokens, archive.arrays["v"], norm, most=most, progress=progress
        )
    report = {
        **summary.describe_optima(found, norm_of(norm), rows),
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        print_json(report)
        return
    Console(markup=False).print(summary.optima_table(report))

"""The command line: parse, call, print."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console

from attsvm import summary
from attsvm.archive import (
    PROBLEMS,
    check_out,
    load_arrays,
    read_problem,
    solution_arrays,
    write_arrays,
)
from attsvm.certificate import Certificate, certify
from attsvm.compound import solve_sets
from attsvm.data import EXAMPLES
from attsvm.errors import AttsvmError, BadTokens, ConvergenceWarning, Inseparable, Unsupported
from attsvm.norms import norm_of
from attsvm.optima import count_selections, local_optima
from attsvm.progress import bar
from attsvm.solvers.front import solve
from attsvm.version import __version__

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False,
    help="Which tokens softmax attention selects, and how surely: certified max-margin directions.",
)  # fmt: skip
# The parser's own errors: click's, or those of the copy inside typer.
ParseError: type[Exception] = typer.BadParameter.__mro__[2]

File = Annotated[Path, typer.Argument(help="Problem file (.npz with X, and z, y, v, alpha, …).")]
NormName = Annotated[
    str, typer.Option("--norm", help="frobenius, nuclear, spectral, max, l1, or lP such as l1.75.")
]
Kind = Annotated[str, typer.Option("--problem", help=f"One of {', '.join(PROBLEMS)}.")]
Tol = Annotated[float | None, typer.Option("--tol", help="Certified relative gap asked for.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write the result to this .npz file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output file.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"attsvm {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("solve", epilog="Example: attsvm solve tokens.npz --norm nuclear --out best.npz")
def solve_command(
    file: File,
    norm: NormName = "frobenius",
    problem: Kind = "selection",
    tol: Tol = None,
    C: Annotated[float | None, typer.Option("--C", help="Budget of a soft margin.")] = None,
    solver: Annotated[str | None, typer.Option("--solver", help="Solver by name.")] = None,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Solve a max-margin problem and certify the answer."""
    if out is not None:
        check_out(out, force=force)
    if problem == "any" and (C is not None or solver is not None):
        raise Unsupported("problem 'any' takes neither C nor a solver: leave them out")
    archive = read_problem(file)
    geometry = norm_of(norm)
    extra: dict[str, Any] = {}
    start = time.perf_counter()
    if problem == "any":
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
        best = solve(rows, geometry, tol=tol, C=C, solver=solver)
    seconds = time.perf_counter() - start
    if out is not None:
        saved: dict[str, Any] = {"problem": np.str_(problem)}
        if problem == "any":
            saved["winners"] = np.asarray(extra["winners"])
        write_arrays(out, {**solution_arrays(best), **saved}, force=force)
    report = {**summary.describe(best), "problem": problem, **extra, "seconds": seconds}
    _show(report, as_json, f"{problem} problem of {file.name}")
    _leave(best)


@app.command("certify", epilog="Example: attsvm certify tokens.npz best.npz --exact")
def certify_command(
    file: File,
    solution: Annotated[Path, typer.Argument(help="Solution file written by solve --out.")],
    norm: Annotated[str | None, typer.Option("--norm", help="Norm, unless the file says.")] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Problem, unless the file says.")
    ] = None,
    tol: Tol = None,
    exact: Annotated[bool, typer.Option("--exact", help="Recheck in rational arithmetic.")] = False,
    as_json: Json = False,
) -> None:
    """Recheck a solution file from the raw data, trusting nothing in it."""
    if tol is not None and not 0 < tol < np.inf:
        raise Unsupported(f"tol is {tol}: it must be a positive number")
    archive = read_problem(file)
    arrays = load_arrays(solution)
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
        check = found.verify(exact=True)
        report["exact"] = summary.describe_check(check)
        wrong = wrong or check.reason
    report["claims"] = wrong or "hold"
    _show(report, as_json, f"{solution.name} against {file.name}")
    if wrong:
        print(f"attsvm: {solution}: {wrong}", file=sys.stderr)
        raise typer.Exit(4)
    _leave(found)


@app.command("example", epilog="Example: attsvm example multi-input --out tokens.npz")
def example_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(EXAMPLES)}.")],
    out: Annotated[Path, typer.Option("--out", help="The .npz file to write.")],
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed, for random families.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write one of the papers' instances as a problem file."""
    if name not in EXAMPLES:
        raise Unsupported(f"unknown example {name!r}: known are {', '.join(EXAMPLES)}")
    if seed is not None and name != "sphere":
        raise Unsupported(f"example {name!r} is fixed and takes no seed; 'sphere' does")
    arrays = EXAMPLES[name]() if seed is None else EXAMPLES[name](seed=seed)
    write_arrays(out, arrays, force=force)
    shapes = {key: list(np.shape(array)) for key, array in arrays.items()}
    report = {"status": "optimal", "example": name, "file": str(out), "arrays": shapes}
    if as_json:
        _print_json(report)
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
        _print_json(report)
        return
    Console(markup=False).print(summary.optima_table(report))


@app.command("tour", epilog="Example: attsvm tour --out tour")
def tour_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the picture.")] = Path("tour"),
    as_json: Json = False,
) -> None:
    """Solve and certify a shipped example in every norm, and draw it."""
    from attsvm.report.tour import tour

    rows = tour(out)
    if as_json:
        _print_json({"status": "optimal", "rows": rows})
        return
    Console(markup=False).print(summary.tour_table(rows))
    print(f"picture: {out / 'tour.svg'} and {out / 'tour.png'}")


@app.command("bench", epilog="Example: attsvm bench --quick --json")
def bench_command(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller works.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Works by name.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the rows.")] = Path("results"),
    as_json: Json = False,
) -> None:
    """Measure attsvm beside other solvers, graded by the certificate."""
    from attsvm.bench import run, table

    report = run(
        quick=quick, only=only, out=out,
        progress=lambda line: print(line, file=sys.stderr) if sys.stderr.isatty() else None,
    )  # fmt: skip
    if as_json:
        _print_json(report)
    else:
        print(table(report["rows"]))


def _print_json(report: dict[str, Any]) -> None:
    print(json.dumps(summary.finite(report), allow_nan=False))


def _show(report: dict[str, Any], as_json: bool, title: str) -> None:
    if as_json:
        _print_json(report)
        return
    Console(markup=False).print(summary.certificate_table(report, title))


def _leave(best: Certificate) -> None:
    code = {"optimal": 0, "inseparable": 3, "stalled": 4}[best.status]
    if code:
        print(f"attsvm: {best.message}", file=sys.stderr)
        raise typer.Exit(code)


def _stop(sentence: object, code: int) -> NoReturn:
    """Leave with one line on standard error, whatever the sentence holds."""
    print(f"attsvm: {' '.join(str(sentence).split())}", file=sys.stderr)
    sys.exit(code)


def main() -> None:
    """Run the command line; errors become one sentence and an exit code."""
    words = sys.argv[1:] or ["--help"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the exit code says it
            code = app(args=words, standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except AttsvmError as error:
        status = {3: "inseparable", 4: "stalled"}.get(error.exit_code)
        if status and "--json" in words:
            _print_json({"status": status, "message": str(error)})
        _stop(error, error.exit_code)
    except ParseError as error:
        _stop(f"{error.format_message().rstrip('.')}; see attsvm --help", 2)  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        _stop("stopped", 130)
    except MemoryError as error:
        _stop(f"not enough memory ({error})", 2)
    except BrokenPipeError:  # the reader of the output has left: nothing to say, nobody to hear
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _stop(error, 2)

"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from attsvm.archive import PROBLEMS, load_arrays, read_problem, solution_arrays, write_arrays
from attsvm.certificate import Certificate, certify
from attsvm.compound import solve_sets
from attsvm.data import EXAMPLES
from attsvm.errors import AttsvmError, BadTokens, ConvergenceWarning, Unsupported
from attsvm.norms import norm_of
from attsvm.optima import count_selections, local_optima
from attsvm.progress import bar
from attsvm.solvers.front import solve
from attsvm.summary import check_rows, claims_beyond, describe, describe_optima, number
from attsvm.version import __version__

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
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
    if out is not None and out.exists() and not force:
        raise BadTokens(f"{out} exists; give another name, or --force to replace it")
    archive = read_problem(file)
    geometry = norm_of(norm)
    start = time.perf_counter()
    if problem == "any":
        choice = solve_sets(archive.tokens, archive.selection, geometry, tol=tol)
        best, extra = choice.certificate, {
            "winners": choice.winners.tolist(), "lower_all": number(choice.lower),
            "solved": choice.solved, "choices": choice.total,
        }  # fmt: skip
    else:
        best = solve(archive.problem(problem), geometry, tol=tol, C=C, solver=solver)
        extra = {}
    seconds = time.perf_counter() - start
    if out is not None:
        write_arrays(out, solution_arrays(best), force=force)
    report = {**describe(best), "problem": problem, **extra, "seconds": seconds}
    _show(report, as_json, f"{problem} problem of {file.name}")
    _leave(best)


@app.command("certify", epilog="Example: attsvm certify tokens.npz best.npz --exact")
def certify_command(
    file: File,
    solution: Annotated[Path, typer.Argument(help="Solution file written by solve --out.")],
    norm: Annotated[str | None, typer.Option("--norm", help="Norm, unless the file says.")] = None,
    problem: Kind = "selection",
    tol: Tol = None,
    exact: Annotated[bool, typer.Option("--exact", help="Recheck in rational arithmetic.")] = False,
    as_json: Json = False,
) -> None:
    """Recheck a solution file from the raw data, trusting nothing in it."""
    archive = read_problem(file)
    arrays = load_arrays(solution)
    for name in ("W", "multipliers"):
        if name not in arrays:
            raise BadTokens(f"{solution} has no array {name}; is it a solution file?")
    geometry = norm_of(norm if norm is not None else str(arrays.get("norm", "frobenius")))
    rows = archive.problem(problem)
    check_rows(rows, arrays, solution)
    W = None if np.isnan(arrays["W"]).all() else arrays["W"]
    budget = float(arrays.get("C", np.inf))
    found = certify(
        rows, geometry, W, arrays["multipliers"], arrays.get("tie_multipliers"), tol=tol,
        budget=budget,
    )  # fmt: skip
    report = {**describe(found), "problem": problem}
    wrong = claims_beyond(arrays, found)
    if exact:
        check = found.verify(exact=True)
        report["exact"] = {
            "ok": check.ok,
            "reason": check.reason,
            "lower": number(check.lower),
            "upper": number(check.upper),
        }
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
    seed: Annotated[int | None, typer.Option("--seed", help="Seed, for random families.")] = None,
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
        print(json.dumps(report))
    else:
        listed = ", ".join(f"{k} {tuple(np.shape(a))}" for k, a in arrays.items())
        print(f"wrote {out}: {listed}")


@app.command("optima", epilog="Example: attsvm optima tokens.npz --json")
def optima_command(
    file: File,
    norm: NormName = "frobenius",
    most: Annotated[int, typer.Option("--most", help="Refuse more selections than this.")] = 10**7,
    rows: Annotated[int, typer.Option("--rows", help="Selections listed at most.")] = 1000,
    as_json: Json = False,
) -> None:
    """Every selection: feasible, globally and locally optimal, with least norms."""
    archive = read_problem(file)
    if "v" not in archive.arrays:
        raise BadTokens(f"{file} has no array v: optimality needs the head's vector for scores")
    total = count_selections(archive.tokens)
    if not as_json:
        print(f"{total} selections", file=sys.stderr)
    start = time.perf_counter()
    with bar("selections") as progress:
        found = local_optima(
            archive.tokens, archive.arrays["v"], norm, most=most, progress=progress
        )
    report = {**describe_optima(found, norm_of(norm), rows), "seconds": time.perf_counter() - start}
    listed = report["list"]
    if as_json:
        print(json.dumps(report))
        return
    table = Table(title=f"{len(found.choices)} of {total} selections are feasible")
    for name in ("selection", "least norm", "global", "local", "score gap"):
        table.add_column(name)
    for row in listed[:40]:
        gap = row["score_gap"]
        table.add_row(
            " ".join(map(str, row["alpha"])), f"{row['norm']:.6g}", "yes" if row["global"] else "",
            row["local"], "" if gap is None else f"{gap:.4g}",
        )  # fmt: skip
    Console().print(table)


@app.command("tour", epilog="Example: attsvm tour --out tour")
def tour_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the picture.")] = Path("tour"),
    as_json: Json = False,
) -> None:
    """Solve and certify a shipped example in every norm, and draw it."""
    from attsvm.report.tour import tour

    rows = tour(out)
    if as_json:
        print(json.dumps({"status": "optimal", "rows": rows}))
        return
    table = Table(title="One selection, every norm")
    for name in ("norm", "lower", "upper", "gap", "rank", "exact check"):
        table.add_column(name)
    for row in rows:
        table.add_row(
            row["norm"], f"{row['lower']:.9f}", f"{row['upper']:.9f}", f"{row['gap']:.1e}",
            str(row["rank"]), "holds" if row["exact"] else "fails",
        )  # fmt: skip
    Console().print(table)
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
        print(json.dumps(report))
    else:
        Console().print(table(report))


def _show(report: dict[str, Any], as_json: bool, title: str) -> None:
    if as_json:
        print(json.dumps(report))
        return
    table = Table(title=title, show_header=False)
    for key in ("status", "message", "lower", "upper", "gap", "rank", "proof", "claims", "seconds"):
        if report.get(key) is not None:
            value = report[key]
            table.add_row(key, f"{value:.12g}" if isinstance(value, float) else str(value))
    W = report["W"]
    if W is not None and len(W) * len(W[0]) <= 64:
        table.add_row("W", "\n".join("  ".join(f"{x: .6f}" for x in row) for row in W))
    tight = report["tight"]
    sure, open_ = len(tight["rows"]), len(tight["undecided"])
    table.add_row("tight rows", f"{sure}, {open_} undecided ({tight['how']})")
    Console().print(table)


def _leave(best: Certificate) -> None:
    code = {"optimal": 0, "inseparable": 3, "stalled": 4}[best.status]
    if code:
        print(f"attsvm: {best.message}", file=sys.stderr)
        raise typer.Exit(code)


def main() -> None:
    """Run the command line; errors become one sentence and an exit code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the exit code says it
            code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except AttsvmError as error:
        print(f"attsvm: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except ParseError as error:
        print(f"attsvm: {error.format_message()}", file=sys.stderr)  # type: ignore[attr-defined]
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        print("attsvm: stopped", file=sys.stderr)
        sys.exit(130)
    except MemoryError as error:
        print(f"attsvm: not enough memory ({error})", file=sys.stderr)
        sys.exit(2)

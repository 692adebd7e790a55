"""certify: a solution file or a saved certificate, rechecked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attsvm._utils.files import load_arrays
from attsvm._utils.progress import working
from attsvm.cli.parts import summary
from attsvm.cli.parts.options import FAILED, Json, Tol, app, leave, read_norm, show
from attsvm.errors import BadTokens, Unsupported

if TYPE_CHECKING:
    from attsvm.certificate import Certificate


@app.command("certify", epilog="Example: attsvm certify tokens.npz best.npz --exact")
def certify_command(
    file: Annotated[Path, typer.Argument(help="Problem file, or a saved certificate alone.")],
    solution: Annotated[
        Path | None, typer.Argument(help="Solution file written by solve --out.")
    ] = None,
    norm: Annotated[
        str | None, typer.Option("--norm", metavar="NAME", help="Norm, unless the file says.")
    ] = None,
    problem: Annotated[
        str | None, typer.Option("--problem", metavar="NAME", help="Problem, unless the file says.")
    ] = None,
    tol: Tol = None,
    exact: Annotated[bool, typer.Option("--exact", help="Recheck in rational arithmetic.")] = False,
    as_json: Json = False,
) -> None:
    """Recheck a solution file from the raw data, or a saved certificate, trusting nothing in it.

    Exit code 5: the file claims more than its arrays prove.
    """
    import numpy as np

    from attsvm._utils.objects import is_outside
    from attsvm.certificate import certify
    from attsvm.cli.parts.archive import read_problem

    if tol is not None and not 0 < tol < np.inf:
        raise Unsupported(f"tol is {tol}: it must be a positive number")
    if solution is None:
        own = norm if norm is not None and is_outside(norm) else None
        named = None if own is not None else norm
        for option, given in (("--norm", named), ("--problem", problem), ("--tol", tol)):
            if given is not None:
                raise Unsupported(f"{option} goes with a solution: a certificate says its own")
        _certify_saved(file, own, exact=exact, as_json=as_json)
        return
    archive = read_problem(file)
    arrays = load_arrays(solution)
    if "attsvm_certificate" in arrays:
        raise BadTokens(f"{solution} is a saved certificate: recheck it alone, without {file}")
    summary.check_solution(arrays, solution)
    geometry = read_norm(norm if norm is not None else str(arrays.get("norm", "frobenius")))
    problem = problem if problem is not None else str(arrays.get("problem", "selection"))
    rows = archive.problem(problem, arrays.get("winners"))
    summary.check_rows(rows, arrays, solution)
    W = None if np.isnan(arrays["W"]).all() else arrays["W"]
    budget = float(arrays.get("C", np.inf))
    found = certify(
        rows,
        geometry,
        W,
        arrays["multipliers"],
        arrays.get("tie_multipliers"),
        tol=tol,
        budget=budget,
    )
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


def _certify_saved(file: Path, norm: str | None, *, exact: bool, as_json: bool) -> None:
    """Recheck a saved certificate from the rows it holds; norm: FILE.py:NAME, if it needs one."""
    from attsvm.certificate import Certificate, certify

    claim = Certificate.load(file, norm=None if norm is None else read_norm(norm))
    found = certify(
        claim.problem,
        claim.norm,
        claim.W,
        claim.multipliers,
        claim.tie_multipliers,
        tol=claim.tolerance,
        budget=claim.budget,
    )
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
    """Leave, with the code of what does not hold when the file claims more than was found."""
    if wrong:
        print(f"attsvm: {file}: {wrong}", file=sys.stderr)
        raise typer.Exit(FAILED)
    leave(found)

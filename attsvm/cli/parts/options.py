"""What the commands share: the program, its words, and how it prints and leaves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from attsvm.cli.parts import summary

if TYPE_CHECKING:
    from attsvm.certificate import Certificate
    from attsvm.norms import Norm

# The problems a file can pose.
PROBLEMS = ("selection", "labels", "relaxed", "finite", "any")

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Which tokens softmax attention selects, and how surely: certified max-margin directions.",
)
File = Annotated[Path, typer.Argument(help="Problem file (.npz with X, and z, y, v, alpha, …).")]
NormName = Annotated[
    str,
    typer.Option(
        "--norm", help="frobenius, nuclear, spectral, max, l1, lP such as l1.75, or FILE.py:NAME."
    ),
]
Kind = Annotated[str, typer.Option("--problem", help=f"One of {', '.join(PROBLEMS)}.")]
Tol = Annotated[float | None, typer.Option("--tol", help="Certified relative gap asked for.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write the result to this .npz file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output file.")]

# Something that was run did not hold, could not be run, or is not what a rerun makes.
FAILED = 5


def read_norm(text: str) -> Norm:
    """The norm of this name, or the one that `FILE.py:NAME` names: an object, or its class."""
    from attsvm.ground.plugins import is_outside, load_object
    from attsvm.norms import norm_of

    if not is_outside(text):
        return norm_of(text)
    found: Any = load_object(text, "a norm")
    return norm_of(found() if isinstance(found, type) else found)


def print_json(report: dict[str, Any]) -> None:
    """Print one JSON object; infinities and NaN are null."""
    print(json.dumps(summary.finite(report), allow_nan=False))


def show(report: dict[str, Any], as_json: bool, title: str) -> None:
    """Print the report of a certificate, as JSON or as a table."""
    if as_json:
        print_json(report)
        return
    from rich.console import Console

    Console(markup=False).print(summary.certificate_table(report, title))


def leave(best: Certificate) -> None:
    """Leave with the exit code of a certificate, and its sentence where it is not optimal."""
    code = {"optimal": 0, "inseparable": 3, "stalled": 4}[best.status]
    if code:
        print(f"attsvm: {best.message}", file=sys.stderr)
        raise typer.Exit(code)


def stop(sentence: object, code: int) -> NoReturn:
    """Leave with one line on standard error, whatever the sentence holds."""
    print(f"attsvm: {' '.join(str(sentence).split())}", file=sys.stderr)
    sys.exit(code)

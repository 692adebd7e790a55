"""What the commands share: the program, its words, and how it prints and leaves."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from attsvm._utils.files import check_out
from attsvm.cli.parts.words import NORMS, STYLES
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from attsvm.certificate import Certificate
    from attsvm.norms import Norm

# The problems a file can pose.
PROBLEMS = ("selection", "labels", "relaxed", "finite", "any")

# The panel of a help page that several commands share.
OUTPUT = "Output"


def _untyped(params: list[Any]) -> list[Any]:
    """The parameters; in help, flags stand without a type."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose flags stand in its help without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, `--help` among them."""
        return _untyped(super().get_params(ctx))


class Group(TyperGroup):
    """The program itself, its flags like those of a command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the program, `--help` among them."""
        return _untyped(super().get_params(ctx))


app = typer.Typer(
    cls=Group,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Which tokens softmax attention selects, and how surely: certified max-margin directions.",
    epilog="Start with: attsvm example multi-input --out tokens.npz, then attsvm solve tokens.npz",
)


def completed(*words: str) -> Callable[[str], list[str]]:
    """A function that completes the beginning of one of these words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Problem file (.npz with X, and z, y, v, alpha, …)."),
]
NormName = Annotated[
    str,
    typer.Option(
        "--norm",
        metavar="NAME",
        help="frobenius, nuclear, spectral, max, l1, lP such as l1.75, or FILE.py:NAME.",
        autocompletion=completed(*NORMS),
    ),
]
Kind = Annotated[
    str,
    typer.Option(
        "--problem",
        metavar="NAME",
        help=f"One of {', '.join(PROBLEMS)}.",
        autocompletion=completed(*PROBLEMS),
    ),
]
Tol = Annotated[
    float | None, typer.Option("--tol", metavar="X", help="Certified relative gap asked for.")
]
Json = Annotated[
    bool,
    typer.Option("--json", help="One JSON object on standard output.", rich_help_panel=OUTPUT),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write the result to this .npz file.",
        rich_help_panel=OUTPUT,
    ),
]
Style = Annotated[
    str,
    typer.Option(
        "--style",
        metavar="NAME",
        help="Of the figure: screen, or paper, for a column of 3.25 inches.",
        autocompletion=completed(*STYLES),
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Replace an existing output file.", rich_help_panel=OUTPUT),
]


def _glossary(wanted: bool) -> None:
    if wanted:
        from attsvm.cli.parts.glossary import show_glossary

        show_glossary()
        raise typer.Exit


Glossary = Annotated[
    bool,
    typer.Option(
        "--glossary",
        callback=_glossary,
        is_eager=True,
        help="Explain the words of the report, and leave.",
    ),
]

# Something that was run did not hold, could not be run, or is not what a rerun makes.
FAILED = 5


def read_norm(text: str) -> Norm:
    """The norm of this name, or the one that `FILE.py:NAME` names: an object, or its class."""
    from attsvm._utils.objects import is_outside, load_object
    from attsvm.norms import norm_of

    if not is_outside(text):
        return norm_of(text)
    found: Any = load_object(text, "a norm")
    return norm_of(found() if isinstance(found, type) else found)


def check_figure(figure: Path | None, style: str, *, force: bool) -> None:
    """Raises an error unless the figure can be written, in this style."""
    if style not in STYLES:
        raise Unsupported(f"--style is {style!r}: known are {', '.join(STYLES)}")
    if figure is None:
        if style != STYLES[0]:
            raise Unsupported("--style is that of a figure: give --figure FILE as well")
        return
    check_out(figure, force=force)
    from attsvm.plotting.style import check_format

    check_format(figure)


def print_json(report: dict[str, Any]) -> None:
    """Print one JSON object; infinities and NaN are null."""
    from attsvm.cli.parts import summary

    print(json.dumps(summary.finite(report), allow_nan=False))


def show(report: dict[str, Any], as_json: bool, title: str) -> None:
    """Print the report of a certificate, as JSON or as a table."""
    if as_json:
        print_json(report)
        return
    from rich.console import Console

    from attsvm.cli.parts import summary

    Console(markup=False).print(summary.certificate_table(report, title))


def leave(best: Certificate) -> None:
    """Leave with the exit code of a certificate, and its sentence where it is not optimal."""
    code = {"optimal": 0, "infeasible": 3, "stalled": 4}[best.status]
    if code:
        print(f"attsvm: {best.message}", file=sys.stderr)
        raise typer.Exit(code)


def stop(sentence: object, code: int) -> NoReturn:
    """Leave with one line on standard error, whatever the sentence holds."""
    print(f"attsvm: {' '.join(str(sentence).split())}", file=sys.stderr)
    sys.exit(code)

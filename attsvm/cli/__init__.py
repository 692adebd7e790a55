"""The command line: parse, call, print. One file per command, those on studies in one.

options.py has the options that several take, and those of a text; output.py prints;
problem_file.py reads and writes.

A command loads what it computes with when it is called, so that `attsvm --help` is fast.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from attsvm._utils.version import __version__
from attsvm.cli import (  # each adds its commands to the program
    certify,
    example,
    fit,
    hunt,
    inspect,
    optima,
    play,
    sentences,
    solve,
    studies,
    sweep,
    train,
)
from attsvm.cli.options import Command, app
from attsvm.cli.output import emit, stop
from attsvm.errors import AttsvmError, ConvergenceWarning

__all__ = [
    "certify", "example", "fit", "hunt", "inspect", "main", "optima", "play", "sentences",
    "solve", "studies", "sweep", "train",
]  # fmt: skip

# The help page lists the commands by panel in this order.
PANELS = {
    "Main commands": ("solve", "certify", "optima", "train", "sentences"),
    "To try it out": ("example", "play"),
    "Real networks": ("fit", "inspect"),
    "The papers' statements": ("list", "show", "reproduce", "report"),
    "Many instances": ("sweep", "hunt"),
}
_PANEL = {name: panel for panel, names in PANELS.items() for name in names}
app.registered_commands.sort(key=lambda command: [*_PANEL].index(str(command.name)))
for _command in app.registered_commands:
    _command.cls = Command
    _command.rich_help_panel = _PANEL[str(_command.name)]

# The parser's own errors: click's, or those of the copy inside typer.
ParseError: type[Exception] = typer.BadParameter.__mro__[2]

# Options and commands of 0.2, and what takes their place.
RENAMED = {
    "--rule": "the option --rule is now called --optimizer",
    "--instances": "the option --instances is now called --seeds",
    "--from": "the option --from is gone: give FILE.py, or FILE.py:NAME, in place of an id",
    "bench": "the command bench is gone: run python -m benchmarks in a clone of attsvm",
}


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


def main() -> None:
    """Run the command line; errors become one sentence and an exit code."""
    _open_streams()
    try:
        try:
            _run(sys.argv[1:] or ["--help"])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has left: nothing to say, nobody to hear
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        stop(error, 2)


def _open_streams() -> None:
    """Let streams take every character, and be where they are closed.

    What an encoding does not have is written as its number, such as \\u2264.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(words: Sequence[str]) -> NoReturn:
    """Run one command, and leave with its exit code."""
    if "--json" in words:
        from attsvm._utils.compiled import silence

        silence()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the exit code says it
            code = app(args=words, standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except AttsvmError as error:
        status = {3: "infeasible", 4: "stalled"}.get(error.exit_code)
        if status and "--json" in words:
            emit({"status": status, "message": str(error)}, True)
        stop(error, error.exit_code)
    except ParseError as error:
        old = getattr(error, "option_name", words[0])
        if old in RENAMED:
            stop(RENAMED[old], 2)
        stop(f"{error.format_message().rstrip('.')}; see attsvm --help", 2)  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        stop("stopped", 130)
    except MemoryError as error:
        stop(f"not enough memory ({error})", 2)

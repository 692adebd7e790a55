"""The command line called in process, and what every refusal of it looks like."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import typer.main

from attsvm.cli import main
from attsvm.datasets import EXAMPLES

NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.75", "l3")

# typer makes every command anew when it is called, which takes longer than most of them.
typer.main.get_command = cache(typer.main.get_command)

# Two inputs of three tokens that can be separated whichever token is kept.
GENERIC = np.random.default_rng(7).standard_normal((2, 3, 7))


@dataclass(frozen=True)
class Result:
    """What a command left: its exit code, its standard output and its standard error."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """The one JSON object on standard output; NaN and Infinity are no JSON."""
        assert self.out.count("\n") == 1, self
        found = json.loads(self.out, parse_constant=_refuse)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Result]


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def runner(capsys, monkeypatch) -> Run:
    """A function that runs `attsvm` with these words."""

    def run(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["attsvm", *map(str, words)])
        capsys.readouterr()
        try:
            main()
        except SystemExit as leave:
            seen = capsys.readouterr()
            return Result(int(leave.code or 0), seen.out, seen.err)
        raise AssertionError("the command line ended without an exit code")

    return run


def save(path: Path, **arrays: Any) -> Path:
    """The path, at which these arrays now are an .npz file."""
    np.savez(path, **arrays)
    return path


def problem(folder: Path, name: str = "multi-input-planar", **changes: Any) -> Path:
    """A problem file of the papers, some arrays changed."""
    return save(folder / "tokens.npz", **{**EXAMPLES[name](), **changes})


def refused(result: Result, *words: str) -> None:
    """Bad input: exit code 2, one sentence on standard error that holds the words, no output."""
    assert result.code == 2, result
    assert result.out == "", result
    assert result.err.startswith("attsvm: "), result
    assert result.err.count("\n") == 1 and result.err.endswith("\n"), result
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err, result


def leaves_nothing(run: Run, folder: Path, *words: object, said: Sequence[str]) -> None:
    """`train` is refused with a path and a figure asked for, and the folder is as before."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(run("train", *words, "--out", "path.npz", "--figure", "run.svg"), *said)
    refused(run("train", *words, "--json"), *said)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

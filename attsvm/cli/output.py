"""How every command prints its result, follows long work, and ends."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from attsvm._utils.files import to_json

if TYPE_CHECKING:
    from rich.table import Table

    from attsvm.certificate import Certificate
    from attsvm.next_token.problems import Columns
    from attsvm.training.path import Path

# The exit code of each status.
CODES = {"optimal": 0, "infeasible": 3, "stalled": 4}


def emit(report: Mapping[str, Any], as_json: bool, *shown: Any) -> None:
    """Print a report: one JSON object, or what is shown to a reader instead, texts and tables."""
    if as_json:
        print(to_json(report, ascii=True))
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    for one in shown:
        console.print(one, soft_wrap=isinstance(one, str))


def facts(title: str, values: Mapping[str, Any]) -> Table:
    """A table of names and values; what is None is left out."""
    from rich.table import Table

    table = Table(title=title, show_header=False)
    for name, value in values.items():
        if value is not None:
            digits = 3 if name == "seconds" else 12
            table.add_row(name, f"{value:.{digits}g}" if isinstance(value, float) else str(value))
    return table


def rows(heads: Iterable[str], body: Iterable[Iterable[Any]], **style: Any) -> Table:
    """A table of rows under these heads; '>' before a head aligns its column to the right.

    The last column is folded where the screen is too narrow, the others are not.
    """
    from rich.table import Table

    table = Table(**{"box": None, "pad_edge": False, **style})
    names = list(heads)
    for name in names:
        justify: Any = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify, no_wrap=name != names[-1])
    for row in body:
        table.add_row(*map(str, row))
    return table


def certificate_facts(report: Mapping[str, Any], title: str) -> Table:
    """The table of one certificate, W included when it is small."""
    names = ("status", "message", "lower", "upper", "gap", "rank", "proof", "claims", "seconds")
    shown: dict[str, Any] = {name: report.get(name) for name in names}
    if check := report.get("exact"):
        verdict = "holds" if check["ok"] else f"fails: {check['reason']}"
        shown["exact check"] = f"ran in rational arithmetic: {verdict}"
    W, tight = report["W"], report["tight"]
    if W is not None and len(W) * len(W[0]) <= 64:
        shown["W"] = "\n".join("  ".join(f"{x: .6f}" for x in row) for row in W)
    sure, undecided = len(tight["rows"]), len(tight["undecided"])
    shown["tight rows"] = f"{sure}, {undecided} undecided ({tight['how']})"
    return facts(title, shown)


def many(number: int, noun: str) -> str:
    """A count with its noun: '1 sentence', '2 queries'.

    >>> many(1, "claim"), many(0, "query"), many(57, "claim")
    ('1 claim', '0 queries', '57 claims')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def say(sentence: object) -> None:
    """One line on standard error, whatever the sentence holds."""
    print(f"attsvm: {' '.join(str(sentence).split())}", file=sys.stderr, flush=True)


def stop(sentence: object, code: int) -> NoReturn:
    """Leave with one line on standard error."""
    say(sentence)
    sys.exit(code)


def leave(best: Certificate | Columns) -> None:
    """Leave with the exit code of a certificate, and its sentence where it is not optimal."""
    if code := CODES[best.status]:
        say(best.message)
        raise typer.Exit(code)


def say_diverged(path: Path, name: str) -> None:
    """Say where a run diverged, if it did, or its gradient was no float to its optimizer."""
    if path.underflow is not None:
        say(
            f"{name}: from step {path.underflow} on the gradient is below the floats and zero to "
            "the optimizer; with normalized_gradient=True it is passed over its norm"
        )
    if path.diverged >= 0:
        say(
            f"{name} diverged at step {path.diverged} with lr {path.config['lr']:g}, and its path "
            "ends there; try a smaller --lr"
        )

"""The table of running claims: live on a terminal, one line per finished claim elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from attsvm._utils.progress import Progress

_COLOURS = {
    "holds": "green",
    "fails": "bold red",
    "not reproduced at this size": "yellow",
    "undecided": "yellow",
    "broken": "bold red",
    "agrees": "green",
    "differs": "bold red",
    "running": "cyan",
    "waiting": "dim",
    "on file": "dim green",
}

# How the state of a claim begins whose single training runs are being done.
TRAINING = "runs "


class Board:
    """The state of every claim and since when, as a table that fits the screen."""

    def __init__(self, names: list[str], console: Console) -> None:
        self.state = dict.fromkeys(names, "waiting")
        self.began: dict[str, float] = {}
        self.took: dict[str, float] = {}
        self.console = console
        self.start = time.monotonic()

    def tell(self, name: str, state: str) -> None:
        """Note a change."""
        self.state[name] = state
        if state == "running":
            self.began[name] = time.monotonic()
        elif name in self.began:
            self.took[name] = time.monotonic() - self.began[name]

    def seconds(self, name: str) -> str:
        """How long the claim has run; nothing when it was not run."""
        if name in self.took:
            return f"{self.took[name]:.1f}"
        return f"{time.monotonic() - self.began[name]:.1f}" if name in self.began else ""

    def __rich__(self) -> Table:
        """What runs first, then what ended last, then what waits, as many as there is room for."""
        training = [n for n, s in self.state.items() if s.startswith(TRAINING)]
        done = [n for n, s in self.state.items() if s not in ("running", "waiting", "on file")]
        done = [n for n in done if n not in training]
        done.sort(key=lambda n: -(self.began.get(n, 0.0) + self.took.get(n, 0.0)))
        ordered = [n for n, s in self.state.items() if s == "running"] + training + done
        ordered += [n for n, s in self.state.items() if s == "waiting"]
        ordered += [n for n, s in self.state.items() if s == "on file"]
        room = max(self.console.height - 4, 3)
        kept = sum(s == "on file" for s in self.state.values())
        spent = time.monotonic() - self.start
        table = Table(
            box=None,
            pad_edge=False,
            caption_justify="left",
            caption=f"{len(done) + kept} of {len(self.state)} claims, {spent:.0f} s",
        )
        for head in ("claim", "state", "seconds"):
            table.add_column(head, justify="right" if head == "seconds" else "left", no_wrap=True)
        for name in ordered[:room]:
            state = self.state[name]
            table.add_row(name, f"[{_COLOURS.get(state, 'cyan')}]{state}[/]", self.seconds(name))
        return table


@contextmanager
def watching(names: list[str]) -> Iterator[tuple[Progress, Progress]]:
    """What to tell of changes and what to say sentences with, on standard error."""
    console = Console(stderr=True, highlight=False)
    board = Board(names, console)
    if not sys.stderr.isatty():

        def line(name: str, state: str) -> None:
            board.tell(name, state)
            if name in board.took:
                print(f"{name} {state} {board.seconds(name)} s", file=sys.stderr, flush=True)

        yield line, lambda sentence: print(f"attsvm: {sentence}", file=sys.stderr, flush=True)
        return
    with Live(board, console=console, refresh_per_second=8, transient=True):
        yield board.tell, lambda sentence: console.print(f"attsvm: {sentence}", markup=False)

"""Result: what every result shows of itself, as text, HTML, plain data, a table and a picture.

Pictures are drawn by `attsvm.plotting`, which comes after the results and knows them; a result
reaches it by name alone, when it is asked for a picture. No module below imports it.
"""

from __future__ import annotations

import html
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.files import finite
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where the pictures are: PICTURES there has a function for each kind.
_DRAWING = "attsvm.plotting.results"

# A screen: no text of a result is longer or wider.
LINES, WIDTH = 24, 100
# Lines of a headline and of one fact, and values of a list, that are shown.
_HEAD, _FACT, _VALUES = 5, 2, 12
# Characters that a cell of a table in a terminal keeps when others need space.
_CELL = 16
# Characters of the name of a fact.
_NAME = 40


@dataclass(frozen=True)
class Summary:
    """A name, one sentence, facts by name, and the first rows of a table, if it has one.

    table: columns by name, of one length; rows: how many rows there are in all, where more than
    the table holds; note: what else a reader may want to know, after everything else; brief: as
    text only the sentence is shown, so that a list of such results can be read; most: how many rows
    are shown.
    """

    name: str
    headline: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    note: str = ""
    brief: bool = False
    most: int = 8

    @property
    def length(self) -> int:
        """How many rows there are in all."""
        own = len(next(iter(self.table.values()), ()))
        return own if self.rows is None else self.rows

    @property
    def shown(self) -> list[list[str]]:
        """The first rows, each cell as text."""
        cells = [
            [format_value(value) for value in column[: self.most]] for column in self.table.values()
        ]
        return [list(row) for row in zip(*cells, strict=True)]


def format_value(value: Any) -> str:
    """A value as a reader expects it: six digits, a long list cut, on one line.

    >>> (
    ...     format_value(0.123456789),
    ...     format_value([1, 2, 3]),
    ...     format_value(None),
    ...     format_value(True),
    ...     format_value(range(1000)),
    ... )
    ('0.123457', '1, 2, 3', 'not known', 'yes', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (1,000)')
    """
    if value is None:
        return "not known"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return "not known" if np.isnan(value) else f"{float(value):.6g}"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    if isinstance(value, str):
        return _line(value)
    if isinstance(value, np.ndarray):
        value = value.ravel()
    if isinstance(value, Sequence | np.ndarray):
        words = ", ".join(format_value(one).replace(",", "") for one in value[:_VALUES])
        return words if len(value) <= _VALUES else f"{words}, … ({len(value):,})"
    return _line(str(value))


def _line(text: str) -> str:
    """The text on one line: breaks and tabs are blanks, what cannot be printed a mark."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)


def as_text(summary: Summary) -> str:
    """The summary within one screen.

    >>> print(as_text(Summary("Sum", "done", {"steps": 2000, "share": 0.99})))
    Sum(done)
      steps  2,000
      share  0.99
    """
    head = f"{_line(summary.name)}({_line(summary.headline)})"
    lines = _wrapped(head, "", "  ", _HEAD)
    if summary.brief:
        return "\n".join(lines)
    names = [_line(name)[:_NAME] for name in summary.facts]
    wide = max(map(len, names), default=0)
    for name, value in zip(names, summary.facts.values(), strict=True):
        start = f"  {name:<{wide}}  "
        lines += _wrapped(format_value(value), start, " " * len(start), _FACT)
    table = _text_table(summary)
    note = _wrapped(_line(summary.note), "  ", "  ", _FACT) if summary.note else []
    space = LINES - len(table) - len(note)
    if len(lines) > space:
        lines = [*lines[: space - 1], "  …"]
    return "\n".join([*lines, *table, *note])


def _wrapped(text: str, first: str, later: str, most: int) -> list[str]:
    """The text in at most so many lines of the screen's width."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        max_lines=most,
        placeholder=" …",
    ) or [first.rstrip()]


def _text_table(summary: Summary) -> list[str]:
    """The first rows as lines; long cells are cut, columns that do not fit left out."""
    rows = summary.shown
    if not rows:
        return []
    cells = [[_line(name) for name in summary.table], *rows]
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    space = WIDTH - 2
    while sum(widths) + 2 * len(widths) > space and max(widths) > _CELL:
        widths[widths.index(max(widths))] -= 1
    fit = len(widths)
    while fit > 1 and sum(widths[:fit]) + 2 * fit > space - 2:
        fit -= 1
    lines = []
    for row in cells:
        words = [_cut(word, wide) for word, wide in zip(row[:fit], widths, strict=False)]
        more = ["…"] if fit < len(widths) else []
        lines.append("  " + "  ".join([*words, *more]).rstrip())
    left = summary.length - len(rows)
    return [*lines, f"  … {left:,} more rows"] if left > 0 else lines


def _cut(word: str, wide: int) -> str:
    """The word in so many characters."""
    return f"{word:<{wide}}" if len(word) <= wide else word[: wide - 1] + "…"


class Result(ABC):
    """What is printed within a screen, in a terminal and in a notebook."""

    @abstractmethod
    def _card(self) -> Summary:
        """What is shown of it; nothing that takes long to compute."""

    def to_dict(self) -> dict[str, Any]:
        """What is shown of it as plain data that JSON can hold; infinities and NaN are None."""
        summary = self._card()
        found: dict[str, Any] = finite({**summary.facts, **summary.table})
        return found

    def __repr__(self) -> str:
        return as_text(self._card())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


class Table(Result):
    """A Result that is a table."""

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """The columns of the table by name, all of one length."""

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame."""
        return frame_of(self.columns())


def frame_of(columns: Mapping[str, Any]) -> Any:
    """The pandas DataFrame of these columns."""
    import pandas

    return pandas.DataFrame(dict(columns))


def draw(kind: str, result: Any, *, style: str, **options: Any) -> Figure:
    """The picture of a result, by its kind in the list of pictures and the name of a style."""
    try:
        pictures = import_module(_DRAWING).PICTURES
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise Unsupported(
            "plot() needs matplotlib, which is not installed: pip install matplotlib"
        ) from error
    picture: Figure = pictures[kind](result, look=style, **options)
    return picture

"""Numbers on logarithmic axes as plain text: 10⁻³, without the markup that takes long to set."""

from __future__ import annotations

import re
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogFormatterMathtext, NullLocator

_RAISED = str.maketrans("0123456789-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")
_POWER = re.compile(r"\^\{([-−]?\d+)\}")


class PlainPowers(Formatter):
    """What another formatter writes, its powers in raised digits."""

    def __init__(self, inner: Formatter) -> None:
        self.inner = inner

    def set_locs(self, locs: Any) -> None:
        """The places of all ticks, of which the other formatter leaves some without a number."""
        self.inner.set_locs(locs)

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The number of a tick."""
        return plain_power(self.inner(x, pos))


def plain_power(marked: str) -> str:
    r"""The plain text of a number in matplotlib's markup.

    >>> plain_power(r"$\mathdefault{-2\times10^{-3}}$")
    '−2·10⁻³'
    """
    if not marked.startswith("$"):
        return marked
    inside = marked.strip("$").removeprefix(r"\mathdefault{").removesuffix("}")
    inside += "}" * (inside.count("{") - inside.count("}"))
    raised = _POWER.sub(lambda found: found[1].translate(_RAISED), inside)
    return raised.replace(r"\times", "·").replace("-", "−")


def plain_ticks(figure: Figure) -> None:
    """Set the numbers of logarithmic axes in plain text, and leave out ticks without a number.

    The small ticks stay where fewer than two large ones are in sight.
    """
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            if not isinstance(axis.get_major_formatter(), LogFormatterMathtext):
                continue
            low, high = sorted(axis.get_view_interval())
            seen = [place for place in axis.get_majorticklocs() if low <= place <= high]
            axis.set_major_formatter(PlainPowers(axis.get_major_formatter()))
            if len(seen) > 1:
                axis.set_minor_locator(NullLocator())
            elif isinstance(axis.get_minor_formatter(), LogFormatterMathtext):
                axis.set_minor_formatter(PlainPowers(axis.get_minor_formatter()))

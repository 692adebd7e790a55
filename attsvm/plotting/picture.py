"""Picture: a Figure that knows its style, and the sheets of panels that pictures are drawn on."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attsvm.errors import Unsupported
from attsvm.plotting import style


class Picture(Figure):
    """A matplotlib Figure that is saved in the style it was drawn in, and shown by notebooks.

    look: "screen" or "paper". It belongs to no window: nothing has to be closed.
    """

    def __init__(self, *args: Any, look: str = "screen", **options: Any) -> None:
        super().__init__(*args, **options)
        self.look = look

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save as matplotlib does, with this picture's fonts and resolution."""
        with style.styled(self.look):
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=110)
        return drawn.getvalue()


def sheet(
    look: str,
    *,
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] = (5.2, 3.6),
    across: int = 1,
) -> tuple[Picture, Any]:
    """A picture with panels (rows, columns); in print so many stand side by side, `across`.

    size: inches of the whole on a screen. Called inside `styled(look)`.
    """
    if look == "paper":
        rows, columns = -(-rows * columns // across), across
        size = (style.COLUMN, (style.PANEL if across == 1 else style.SMALL) * rows)
        pads: dict[str, Any] = {"w_pad": 0.02, "h_pad": 0.02, "hspace": 0.04}
    else:
        pads = {"wspace": 0.07 if rows == 1 else 0.05, "hspace": 0.08}
    made = Picture(figsize=size, look=look, layout=ConstrainedLayoutEngine(**pads))
    return made, made.subplots(rows, columns, squeeze=False)


def finish(figure: Figure, look: str) -> Figure:
    """The picture with the names of its axes cut at the semicolon in print: captions say more."""
    if look == "paper":
        for ax in figure.axes:
            ax.set_ylabel(ax.get_ylabel().partition(";")[0])
    return figure


def one_panel(drawing: Callable[[Axes], None], ax: Any, look: str, *, wide: float = 5.2) -> Figure:
    """The picture of one panel, or the figure of the axes that were given, drawn into.

    Axes of one's own keep their own style.
    """
    style.check_look(look)
    if ax is not None:
        if not isinstance(ax, Axes):
            raise Unsupported(f"ax is {type(ax).__name__}: give matplotlib Axes")
        drawing(ax)
        return ax.get_figure(root=True) or Figure()
    with style.styled(look):
        made, grid = sheet(look)
        drawing(grid[0, 0])
        return finish(made, look)

"""Result: what every result shows of itself, and the doors to pandas and to the pictures.

Pictures are drawn by `attsvm.plotting`, which stands above the results and knows them; a result
reaches it by name alone, when it is asked for a picture. No module below imports it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attsvm._utils.summary import Summary, as_html, as_text
from attsvm._utils.version import install
from attsvm.errors import Unsupported

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Where the pictures are: PICTURES there has a function for each kind.
_DRAWING = "attsvm.plotting.results"


class Result(ABC):
    """What is printed within a screen, and shown as a small table in a notebook."""

    @abstractmethod
    def _card(self) -> Summary:
        """What is shown of it; nothing that takes long to compute."""

    def __repr__(self) -> str:
        return as_text(self._card())

    def _repr_html_(self) -> str:
        return as_html(self._card())


class Table(Result):
    """A Result that is a table."""

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """The columns of the table by name, all of one length."""

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame; raises Unsupported where pandas is not installed."""
        return frame_of(self.columns())


def frame_of(columns: Mapping[str, Any]) -> Any:
    """The pandas DataFrame of these columns."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"to_frame() needs pandas, which is not installed: {install('pandas')}"
        ) from error
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

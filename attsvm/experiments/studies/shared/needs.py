"""What claims on real data need beyond attsvm: whether it is here, and how it is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from attsvm._utils.version import install
from attsvm.datasets.real import fashion_images, review_lines
from attsvm.errors import BadTokens


def _package(module: str, install: str) -> Callable[[], str]:
    """What is missing when this module is not installed."""

    def missing() -> str:
        return "" if find_spec(module) is not None else f"{module} is not here: {install}"

    return missing


def _data(look: Callable[[], object]) -> Callable[[], str]:
    """What is missing when this data set is not found."""

    def missing() -> str:
        try:
            look()
        except BadTokens as error:
            return str(error)
        return ""

    return missing


# What a claim may need -> a function that says what is missing; empty when nothing is.
NEEDS: dict[str, Callable[[], str]] = {
    "torch": _package("torch", install("real")),
    "reviews": _data(lambda: review_lines(1)),
    "fashion": _data(lambda: fashion_images((1, 1, 1))),
    "sklearn": _package("sklearn", install("real")),
    "valence": _package("vaderSentiment", install("real")),
}


def missing(needs: tuple[str, ...]) -> str:
    """What of these is missing, in words, with the line that installs it; empty when all is here.

    >>> missing(())
    ''
    """
    return "; ".join(filter(None, (NEEDS[need]() for need in needs)))

"""What claims on real data need beyond attsvm: whether it is here, and how it is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from attsvm._utils.version import install
from attsvm.datasets.real import fashion_images, review_lines
from attsvm.errors import BadTokens

# What a study may need: a module, or a data set.
MODULES = {"torch": "torch", "sklearn": "sklearn", "valence": "vaderSentiment"}
DATA: dict[str, Callable[[], object]] = {
    "reviews": lambda: review_lines(1),
    "fashion": lambda: fashion_images((1, 1, 1)),
}


def missing(needs: tuple[str, ...]) -> str:
    """What of these is missing, in words, with the line that installs it; empty when all is here.

    >>> missing(())
    ''
    """
    said = []
    for need in needs:
        try:
            if need in DATA:
                DATA[need]()
            elif find_spec(MODULES[need]) is None:
                said.append(f"{MODULES[need]} is not here: {install('real')}")
        except BadTokens as error:
            said.append(str(error))
    return "; ".join(said)

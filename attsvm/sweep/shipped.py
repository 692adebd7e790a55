"""The specs that come with the package, by name."""

from __future__ import annotations

from pathlib import Path

from attsvm.errors import Unsupported
from attsvm.sweep.nearest import unknown
from attsvm.sweep.spec import Spec, read_spec

_FOLDER = Path(__file__).parent / "specs"
# Name -> file, in alphabetical order.
SHIPPED: dict[str, Path] = {file.stem: file for file in sorted(_FOLDER.glob("*.toml"))}


def shipped_spec(name: str, *, quick: bool = False) -> Spec:
    """The shipped spec of this name; quick: with smaller counts.

    >>> shipped_spec("separability", quick=True).work.family
    'gaussian'
    """
    if name not in SHIPPED:
        raise Unsupported(f"{unknown('sweep', name, SHIPPED)}, or a file SPEC.toml")
    return read_spec(SHIPPED[name], quick=quick)

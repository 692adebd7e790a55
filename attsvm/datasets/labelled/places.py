"""Where a data set lies: in a folder that is named, in ATTSVM_DATA, or in its package."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from attsvm.errors import BadTokens


def folder_with(
    files: Iterable[str], installed: Iterable[Path], *, data_dir: str | Path | None, missing: str
) -> Path:
    """The first folder that holds all these files. Raises BadTokens, with `missing`, where none is.

    installed: where a package puts them; looked at last.
    """
    names = tuple(files)
    given = [Path(folder) for folder in (data_dir, os.environ.get("ATTSVM_DATA")) if folder]
    for folder in (*given, *installed):
        if all((folder / name).is_file() for name in names):
            return folder
    if data_dir is not None:
        missing = f"{data_dir} does not have {names[0]}; {missing}"
    raise BadTokens(missing)


def package_folders(package: str, inside: str) -> list[Path]:
    """The folders `inside` an installed package; none where it is not installed."""
    spec = find_spec(package)
    places = (spec.submodule_search_locations or []) if spec else []
    return [Path(place) / inside for place in places]

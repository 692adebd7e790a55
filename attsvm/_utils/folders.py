"""Folders of results: written beside, then renamed, so that a whole one appears or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attsvm.errors import BadTokens


def check_folder(folder: Path, mark: str, *, force: bool = False) -> None:
    """Raises BadTokens where a folder of results cannot be written.

    mark: the file by which such a folder is known; no other folder is ever replaced.
    """
    if not folder.resolve().parent.is_dir():
        raise BadTokens(f"the folder {folder.parent} does not exist")
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise BadTokens(f"{folder} is a file; give the name of a new folder")
    if folder.is_symlink() or not (folder / mark).is_file():
        raise BadTokens(f"{folder} exists and has no {mark}: it is not replaced; give another name")
    if not force:
        raise BadTokens(f"{folder} exists; give another name, or --force to replace it")


@contextmanager
def new_folder(folder: Path, mark: str, *, force: bool = False) -> Iterator[Path]:
    """A folder to write to, which takes its place when the writing went well."""
    check_folder(folder, mark, force=force)
    above = folder.resolve().parent
    made = Path(tempfile.mkdtemp(dir=above, prefix=".attsvm-", suffix=".part"))
    try:
        yield made
        os.chmod(made, 0o755)
        check_folder(folder, mark, force=force)
        if folder.exists():
            old = Path(tempfile.mkdtemp(dir=above, prefix=".attsvm-", suffix=".old"))
            os.replace(folder, old / folder.name)
            try:
                os.replace(made, folder)
            except BaseException:
                os.replace(old / folder.name, folder)
                raise
            finally:
                shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(made, folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise

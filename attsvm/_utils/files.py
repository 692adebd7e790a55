"""Files: what is read is checked first, what is written appears in one move.

Arrays are kept in `.npz` files without pickles, written beside and then renamed.
"""

from __future__ import annotations

import lzma
import math
import os
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.expected import flag
from attsvm._utils.memory import require
from attsvm.errors import BadTokens

# What reading a broken archive raises: bad headers, cut or encrypted members, unknown packing.
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    TypeError,
    RuntimeError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
)


def check_in(path: Path, wanted: str) -> None:
    """Nothing; an error when there is no regular file to read. wanted: what to give instead."""
    if not path.exists():
        raise BadTokens(f"{path} does not exist")
    if path.is_dir():
        raise BadTokens(f"{path} is a folder; give {wanted}")
    if not path.is_file():  # reading from a pipe would wait for ever
        raise BadTokens(f"{path} is not a regular file; give {wanted}")


def load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an `.npz` file, by name."""
    check_in(path, "an .npz file")
    if not zipfile.is_zipfile(path):
        raise BadTokens(f"{path} is not an .npz file; write it with numpy.savez")
    try:
        _check_size(path)
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        if isinstance(error, BadTokens):
            raise
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            raise BadTokens(
                f"{path} holds a pickled object; save plain arrays of numbers instead"
            ) from error
        raise BadTokens(f"{path} cannot be read as an .npz file ({error})") from error


def _check_size(path: Path) -> None:
    """Nothing; an error when the arrays of the file, by their headers, do not fit in memory."""
    need = 0.0
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                version = np.lib.format.read_magic(stream)
                header = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = header(stream)
                need += math.prod(shape) * max(dtype.itemsize, 8)
    require(2 * need, path.name)


def check_out(path: Path, *, force: bool = False) -> None:
    """Nothing; an error when a result cannot be written to `path`."""
    force = flag(force, "force")
    if path.is_dir():
        raise BadTokens(f"{path} is a folder; give the name of an .npz file")
    if path.exists() and not force:
        raise BadTokens(f"{path} exists; give another name, or --force to replace it")
    if not path.parent.is_dir():
        raise BadTokens(f"the folder {path.parent} does not exist")


def write_arrays(path: Path, arrays: dict[str, Any], *, force: bool = False) -> None:
    """Write an `.npz` file in one move: a whole file appears, or none."""
    check_out(path, force=force)
    with beside(path) as target, target.open("wb") as stream:
        np.savez(stream, **arrays)


@contextmanager
def beside(file: Path) -> Iterator[Path]:
    """A new file to write to, which takes the place of `file` when the writing went well."""
    if file.is_dir():
        raise BadTokens(f"{file} is a folder; give the name of a file")
    if not file.parent.is_dir():
        raise BadTokens(f"the folder {file.parent} does not exist")
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".attsvm-", suffix=".part")
    os.close(handle)
    try:
        yield Path(name)
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise

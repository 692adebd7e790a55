"""Files: what is read is checked first, what is written appears in one move or not at all.

Arrays are kept in `.npz` files without pickles, records in JSON with null for infinities and NaN;
both are written to a temporary file and renamed. A full disk is reported in one sentence.
"""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.expected import flag
from attsvm._utils.memory import require
from attsvm.errors import AttsvmError, BadTokens


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
    except AttsvmError:
        raise
    except Exception as error:  # bad headers, cut or encrypted members, unknown packing
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
        raise BadTokens(f"{path} is a folder; give the name of a file")
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


def to_json(value: Any, *, indent: int | None = None, ascii: bool = False) -> str:
    """Nested plain data as JSON; null stands for every infinity and NaN.

    ascii: write other characters by their numbers, for streams of any encoding.

    >>> to_json({"gap": float("inf"), "margins": (1.0, 2.5)})
    '{"gap": null, "margins": [1.0, 2.5]}'
    """
    return json.dumps(finite(value), indent=indent, ensure_ascii=ascii, allow_nan=False)


def finite(value: Any) -> Any:
    """Nested data as plain data, arrays as lists, with None for every infinity and NaN."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(file: Path, content: Any) -> None:
    """Write a JSON file in one move; null stands for every infinity and NaN."""
    write_text(file, to_json(content, indent=1) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write a text file in one move: a whole file appears, or none."""
    with beside(file) as target:
        target.write_text(text, encoding="utf-8")


def parse_json(text: str) -> Any:
    """The value of a JSON text; raises ValueError, whatever is wrong with it."""
    with _not_nested_too_deeply():
        return json.loads(text)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; raises ValueError, whatever is wrong with it."""
    with _not_nested_too_deeply():
        found = tomllib.loads(text)
        json.dumps(found, default=str)  # raises for deep nesting and for too many digits
        return found


def read_toml(file: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    check_in(file, "a .toml file")
    try:
        return parse_toml(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadTokens(f"{file} is no TOML file ({error})") from error


@contextmanager
def _not_nested_too_deeply() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """A context in which a full disk, or a folder that cannot be written to, is one sentence."""
    try:
        yield
    except OSError as error:
        if disk_is_full(error):
            raise BadTokens(
                f"no space is left in {folder}: what was finished is kept; free some space and "
                "run it again"
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise BadTokens(
                f"{folder} cannot be written to ({os.strerror(error.errno)}): what is finished is "
                "kept; give another folder"
            ) from error
        raise


def disk_is_full(error: BaseException) -> bool:
    """Whether the error says that no space is left, or that a file may not grow."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

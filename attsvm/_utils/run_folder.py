"""RunFolder: a folder of results that is made, resumed, locked, replaced and read in one way.

A folder is recognised by its stamp, `attsvm.json`: the kind of results, the version of their
layout, and what they depend on. Files are written to temporary names and renamed, so a run that is
killed leaves whole files only; the next one removes what was half-written.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attsvm._utils.files import parse_json, write_json, writing_to
from attsvm.errors import BadTokens

STAMP, LOCK = "attsvm.json", "lock"
_TEMPORARY = ".attsvm-*.part"


@dataclass(frozen=True)
class RunFolder:
    """A folder for results of one kind, whose files are laid out in one version."""

    path: Path
    kind: str
    version: int = 1

    @property
    def exists(self) -> bool:
        """Whether results were begun in this folder, of whatever kind."""
        return (self.path / STAMP).is_file()

    def open(self, **entries: type) -> dict[str, Any]:
        """The stamp; raises BadTokens for a folder that holds no results of this kind and version.

        entries: what the stamp must hold, by name, with the type of each.
        """
        if not self.path.is_dir():
            raise BadTokens(f"there is no folder {self.path}")
        if not self.exists:
            raise BadTokens(f"{self.path} holds no {self.kind}: it has no {STAMP}")
        try:
            stamp = parse_json((self.path / STAMP).read_text("utf-8"))
            kind, version = stamp["kind"], stamp["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(str(error)) from None
        if kind != self.kind:
            raise BadTokens(f"{self.path} holds a {kind}, not a {self.kind}: give another folder")
        if version != self.version:
            raise BadTokens(
                f"{self.path} was written by another version of attsvm (layout {version}, this "
                f"one reads {self.version}): run it again in a new folder"
            )
        for name, needed in entries.items():
            if not isinstance(stamp.get(name), needed):
                raise self._unreadable(f"it has no {name}")
        return dict(stamp)

    def _unreadable(self, why: str) -> BadTokens:
        return BadTokens(f"{self.path / STAMP} cannot be read ({why}); give another folder")

    def check(self) -> None:
        """Raises BadTokens for a file, and for a folder with anything else in it."""
        if self.path.exists() and not self.path.is_dir():
            raise BadTokens(f"{self.path} is a file; give a folder")
        if self.exists:
            self.open()
        elif self.path.exists() and not all(map(_left, self.path.iterdir())):
            raise BadTokens(f"{self.path} holds other files; give an empty or a new folder")

    def check_writable(self) -> None:
        """Raises BadTokens where `create` would fail; leaves nothing behind."""
        self.check()
        new = [place for place in (self.path, *self.path.absolute().parents) if not place.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise BadTokens(
                f"{self.path} cannot be written to ({why}): give another folder"
            ) from error
        finally:
            for place in new:
                if place.is_dir():
                    place.rmdir()

    def create(self, *parts: str, stale: float = 0.0, **entries: Any) -> Path:
        """The folder, made or resumed, with subfolders of these names and entries in its stamp.

        Half-written files that are older than `stale` seconds are removed.
        """
        self.check()
        with writing_to(self.path):
            for place in (self.path, *(self.path / part for part in parts)):
                place.mkdir(parents=True, exist_ok=True)
                for file in place.glob(_TEMPORARY):
                    if not stale or file.stat().st_mtime < time.time() - stale:
                        file.unlink(missing_ok=True)
            self._stamp(self.path, entries)
        return self.path

    def _stamp(self, place: Path, entries: dict[str, Any]) -> None:
        write_json(place / STAMP, {"kind": self.kind, "version": self.version, **entries})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A context in which no other process works in the folder; it ends with the process.

        Raises BadTokens where another process does.
        """
        if self.path.exists() and not self.path.is_dir():
            raise BadTokens(f"{self.path} is a file; give a folder")
        with writing_to(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle = self._take_lock()
            os.truncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        try:
            yield
        finally:
            (self.path / LOCK).unlink(missing_ok=True)
            os.close(handle)

    def _take_lock(self) -> int:
        """The open lock file, locked."""
        file = self.path / LOCK
        while True:
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                _lock(handle)
            except OSError as error:
                os.close(handle)
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
                    raise
                who = file.read_text("utf-8", errors="replace") if file.exists() else ""
                raise BadTokens(
                    f"{self.path} is in use by another run ({who or 'it has just begun'}): wait "
                    "for it, or give another folder"
                ) from error
            # One that ended in the meantime has removed its file: that lock is of no use.
            if file.exists() and os.path.samestat(os.fstat(handle), file.stat()):
                return handle
            os.close(handle)

    def check_replaceable(self, *, force: bool = False) -> None:
        """Raises BadTokens unless `replaced` can write the folder; no other one is replaced."""
        if not self.path.resolve().parent.is_dir():
            raise BadTokens(f"the folder {self.path.parent} does not exist")
        if not self.path.exists() and not self.path.is_symlink():
            return
        if not self.path.is_dir():
            raise BadTokens(f"{self.path} is a file; give the name of a new folder")
        if self.path.is_symlink() or not self.exists:
            raise BadTokens(
                f"{self.path} exists and has no {STAMP}: it is not replaced; give another name"
            )
        self.open()
        if not force:
            raise BadTokens(f"{self.path} exists; give another name, or --force to replace it")

    @contextmanager
    def replaced(self, *, force: bool = False, **entries: Any) -> Iterator[Path]:
        """A new folder to write to, which takes this one's place when the writing went well."""
        self.check_replaceable(force=force)
        above = self.path.resolve().parent
        made = Path(tempfile.mkdtemp(dir=above, prefix=".attsvm-", suffix=".part"))
        try:
            yield made
            self._stamp(made, entries)
            made.chmod(0o755)
            self.check_replaceable(force=force)
            if self.path.exists():
                shutil.rmtree(self.path)
            made.replace(self.path)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise


def _left(file: Path) -> bool:
    """Whether a run that was killed before it had a stamp can have left this."""
    empty = file.is_dir() and not any(file.iterdir())
    return empty or file.name == LOCK or file.match(_TEMPORARY)


def _lock(handle: int) -> None:
    """Lock an open file, or raise at once where another process has."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

"""The project's files as the house tests read them: text and syntax trees, nothing imported."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "attsvm"


# What tools leave behind, for a tree that git does not know.
LEFT_BEHIND = {"__pycache__", "build", "dist"}


@cache
def files() -> tuple[Path, ...]:
    """Every file that is part of the project: tracked, or new and not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        names = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        names = [path for path in ROOT.rglob("*") if not left_behind(path.relative_to(ROOT))]
    return tuple(sorted(path for path in names if path.is_file()))


def left_behind(path: Path) -> bool:
    """Whether a file of an unpacked archive was made by a tool: hidden, cached or built."""
    hidden = [part for part in path.parts if part.startswith(".") and part != ".ci"]
    return bool(hidden or LEFT_BEHIND & set(path.parts) or path.match("*.egg-info/*"))


def texts() -> dict[Path, str]:
    """The text of every file that has some; pictures and arrays are left out."""
    found = {}
    for path in files():
        try:
            found[path] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name -> syntax tree of every module of the package; `attsvm` is its __init__."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return found


def show(path: Path) -> str:
    """A path as it is written in messages: relative to the project's root."""
    return path.relative_to(ROOT).as_posix()

"""Pages whose programs run: each ```python block is followed by a ```text block with its output.

    python -m tests.site.tutorial

runs the blocks of each such page top to bottom in one session and writes what they print into it,
and the table of limits into docs/theory.md.
"""

import contextlib
import io
import re
import tempfile
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from tests.conventions.tree import ROOT
from tests.site import limits

PAGES = tuple(
    ROOT / "docs" / f"{name}.md"
    for name in (
        "index",
        "tutorial",
        "training",
        "first-change",
        "howto-arrays",
        "howto-optimizers",
        "howto-text-or-model",
    )
)
PAIR = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.S | re.M)


def said(page: str) -> list[str]:
    """What each block prints, in a session that starts with nothing."""
    session: dict[str, object] = {"__name__": "__main__"}
    found = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for match in runnable(page):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(match[1], "<page>", "exec"), session)
            found.append(out.getvalue())
    return found


def runnable(page: str) -> list[re.Match[str]]:
    """The blocks with their outputs; without torch, those before the first one that needs it."""
    found = list(PAIR.finditer(page))
    if find_spec("torch"):
        return found
    return list(takewhile(lambda match: "attsvm.torch" not in match[1], found))


def printed(page: str) -> list[str]:
    """What the page says that each block prints."""
    return [match[2] for match in runnable(page)]


def refreshed(page: str) -> str:
    """The page with what its blocks print now."""
    outputs = iter(said(page))
    return PAIR.sub(lambda m: f"```python\n{m[1]}```\n\n```text\n{next(outputs)}```", page)


def refresh(path: Path) -> None:
    """Rewrite a page whose blocks print something else."""
    old = path.read_text("utf-8")
    if (new := refreshed(old)) != old:
        path.write_text(new, "utf-8")
        print(f"refreshed {path.relative_to(ROOT)}")


if __name__ == "__main__":
    for each in PAGES:
        refresh(each)
    limits.PAGE.write_text(limits.refreshed(limits.PAGE.read_text("utf-8")), "utf-8")

"""Source blocks in the pages under docs/: each repeats a part of a real file, kept equal to it.

A block is a fenced Python block under a line `<!-- source: FILE -->` (the whole file) or
`<!-- source: FILE NAME -->` (the top-level class, function or assignment of that name).
`python -m tests.conventions.included` rewrites the blocks of every page.
"""

import ast
import re
from pathlib import Path

from tests.conventions.tree import ROOT

BLOCK = re.compile(r"(<!-- source: (\S+)(?: (\S+))? -->\n```python\n)(.*?)(^```$)", re.S | re.M)


def pages() -> list[Path]:
    """The pages that may hold source blocks."""
    return sorted((ROOT / "docs").glob("*.md"))


def source(file: str, name: str | None) -> str:
    """The text of a file, or of what it binds to this name, decorators included."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if name is None:
        return text
    for node in ast.parse(text).body:
        match node:
            case ast.ClassDef(name=found) | ast.FunctionDef(name=found):
                first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            case (
                ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found))
            ):
                first = node.lineno
            case _:
                continue
        if found == name:
            lines = text.splitlines(keepends=True)
            return "".join(lines[first - 1 : node.end_lineno])
    raise ValueError(f"{file} binds no top-level name {name!r}")


def refreshed(page: str) -> str:
    """The text of a page with each block as its file has it now."""
    return BLOCK.sub(lambda m: m[1] + source(m[2], m[3]) + m[5], page)


if __name__ == "__main__":
    for path in pages():
        old = path.read_text(encoding="utf-8")
        if (new := refreshed(old)) != old:
            path.write_text(new, encoding="utf-8")
            print(f"refreshed {path.relative_to(ROOT)}")

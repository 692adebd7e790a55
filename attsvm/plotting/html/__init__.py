"""Pages: one HTML file each that loads nothing, from jinja2 templates over base.html."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from attsvm.plotting.html.shell import png_image, svg_image

if TYPE_CHECKING:
    from jinja2 import Environment

# Characters of an SVG above which the PNG is shown if it is shorter.
LARGEST = 250_000


@cache
def _environment(package: str) -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def load(name: str) -> str | None:
        for place in (package, "attsvm.plotting.html"):
            file = files(place).joinpath(name)
            if file.is_file():
                return file.read_text("utf-8")
        return None

    return Environment(
        loader=FunctionLoader(load), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=lambda value: "" if value is None else value,
    )  # fmt: skip


def render(package: str, template: str, **values: Any) -> str:
    """The page of a template in a package's files; texts among the values are no markup."""
    return _environment(package).get_template(template).render(**values)


def picture(folder: Path, name: str, described: str, most: int = LARGEST) -> str:
    """The HTML of a figure on file: SVG, or PNG where the SVG has more than `most` characters and
    the PNG is shorter; empty where there is none.

    described: what a screen reader says of it.
    """
    drawn = _svg(folder / f"{name}.svg", described)
    if drawn and len(drawn) <= most:
        return drawn
    content = file.read_bytes() if (file := folder / f"{name}.png").exists() else b""
    png = png_image(content, described) if content.startswith(b"\x89PNG\r\n\x1a\n") else ""
    return min(filter(None, (drawn, png)), key=len, default="")


def _svg(file: Path, described: str) -> str:
    """The file as an image; empty where it is missing, enormous or broken."""
    if not file.exists() or file.stat().st_size > 40 * LARGEST:
        return ""
    try:
        svg = file.read_text("utf-8")
        ElementTree.fromstring(svg)
    except (ElementTree.ParseError, UnicodeDecodeError):
        return ""
    return svg_image(svg, described)

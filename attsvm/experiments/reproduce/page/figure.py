"""The picture of a claim: SVG inside the page, or PNG when it is too large."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from attsvm.plotting.html.shell import png_image, svg_image

# Characters of an SVG above which the PNG is shown if it is shorter.
LARGEST = 250_000


def picture(folder: Path, name: str, *, described: str, most: int = LARGEST) -> str:
    """The HTML of a claim's picture: an image, or a sentence when there is none.

    described: what a screen reader says of it. most: characters of an SVG; of one above this, the
    shorter of SVG and PNG is shown.
    """
    figures = folder / "figures"
    drawn = _svg(figures / f"{name}.svg", described)
    if drawn and len(drawn) <= most:
        return drawn
    kept = [part for part in (drawn, _png(figures / f"{name}.png", described)) if part]
    return min(kept, key=len) if kept else '<p class="none">No picture is on file.</p>'


def _svg(file: Path, described: str) -> str:
    """The file as an image; nothing when it is missing, enormous or broken."""
    if not file.exists() or file.stat().st_size > 40 * LARGEST:
        return ""
    try:
        svg = file.read_text("utf-8")
        ElementTree.fromstring(svg)
    except (ElementTree.ParseError, UnicodeDecodeError):
        return ""
    return svg_image(svg, described)


def _png(file: Path, described: str) -> str:
    """The file as an image; nothing when it is missing or no PNG."""
    content = file.read_bytes() if file.exists() else b""
    return png_image(content, described) if content.startswith(b"\x89PNG\r\n\x1a\n") else ""

"""The picture of a claim: SVG inside the page, or PNG when it is too large."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from attsvm.errors import BadTokens
from attsvm.plotting.html.inlined import Letters, inline

# Characters of an SVG above which the PNG is shown if it is shorter.
LARGEST = 250_000


def picture(
    folder: Path,
    name: str,
    *,
    prefix: str,
    described: str,
    most: int = LARGEST,
    letters: Letters | None = None,
) -> str:
    """The HTML of a claim's picture: an inline SVG, an image, or a sentence when there is none.

    prefix: put before every name inside the SVG. described: what a screen reader says of it. most:
    characters of an SVG; of one above this, the shorter of SVG and PNG is shown. letters: those of
    the page.
    """
    figures = folder / "figures"
    drawn = _inlined(figures / f"{name}.svg", prefix, described, letters)
    if drawn and len(drawn) <= most:
        return drawn
    image = _image(figures / f"{name}.png", described)
    kept = [part for part in (drawn, image) if part]
    return min(kept, key=len) if kept else '<p class="none">No picture is on file.</p>'


def _inlined(svg: Path, prefix: str, described: str, letters: Letters | None) -> str:
    """The file as an inline SVG; nothing when it is missing, enormous or broken."""
    if not svg.exists() or svg.stat().st_size > 40 * LARGEST:
        return ""
    try:
        return inline(svg.read_text("utf-8"), prefix=prefix, described=described, letters=letters)
    except (ElementTree.ParseError, BadTokens, UnicodeDecodeError):
        return ""


def _image(png: Path, described: str) -> str:
    """The file as an image inside the page; nothing when it is missing or no PNG."""
    content = png.read_bytes() if png.exists() else b""
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        return ""
    coded = base64.b64encode(content).decode("ascii")
    return f'<img alt="{escape(described)}" src="data:image/png;base64,{coded}">'

"""The picture of a claim: SVG inside the page, or PNG when it is too large."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from xml.etree import ElementTree

from attsvm.errors import BadTokens
from attsvm.page.inlined import Letters, inline
from attsvm.reproduce.folder import NARROW

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
    the page. Where there is another form for a narrow screen, both are given, in elements of class
    wide and narrow.
    """
    figures = folder / "figures"
    drawn = _inlined(figures / f"{name}.svg", prefix, described, letters)
    if not drawn or len(drawn) > most:
        image = _image(figures / f"{name}.png", described)
        kept = [part for part in (drawn, image) if part]
        drawn = min(kept, key=len) if kept else '<p class="none">No picture is on file.</p>'
    slim = figures / f"{name}{NARROW}"
    if not slim.exists() or _same(slim, figures / f"{name}.svg"):
        return drawn
    other = _inlined(slim, f"{prefix}n-", described, letters)
    if not other or len(other) > max(most, LARGEST):
        return drawn
    return f'<div class="wide">{drawn}</div><div class="narrow">{other}</div>'


def _same(first: Path, second: Path) -> bool:
    return second.exists() and first.read_bytes() == second.read_bytes()


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

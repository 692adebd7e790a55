"""What every page has: one HTML file that loads nothing, its colours, text that is no markup."""

from __future__ import annotations

import base64
import json
import re
from html import escape
from typing import Any
from urllib.parse import quote

# Six decimals are far below a pixel: two are enough. Numbers below 10 may be scales and stay.
_DECIMALS = re.compile(r"(\d\d\.\d\d)\d+")


def text(value: object) -> str:
    """Anything as text that cannot be markup."""
    return escape(str(value))


def svg_image(svg: str, described: str) -> str:
    """The SVG as an image of the page; an image runs no script and loads nothing.

    described: what a screen reader says of it.
    """
    short = _DECIMALS.sub(r"\1", " ".join(svg.split()))
    source = quote(short, safe=' !$()*+,-./:;=?@[]^`{|}~"')
    return f'<img class="drawn" alt="{text(described)}" src=\'data:image/svg+xml,{source}\'>'


def png_image(png: bytes, described: str) -> str:
    """The PNG as an image of the page."""
    coded = base64.b64encode(png).decode("ascii")
    return f'<img alt="{text(described)}" src="data:image/png;base64,{coded}">'


def script_json(value: Any) -> str:
    """JSON that may stand in a script element: no `<` is left that could end it.

    Numbers in five digits, finer than a pixel; what is not finite is null.
    """
    plain = json.dumps(_rounded(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return plain.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _rounded(value: Any) -> Any:
    """Nested plain data, numbers in five digits: finer than a pixel; what is not finite is None."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    if isinstance(value, float):
        short = float(f"{value:.5g}")
        if short != short or short in (float("inf"), float("-inf")):
            return None
        return int(short) if short.is_integer() and abs(short) < 1e6 else short
    return value

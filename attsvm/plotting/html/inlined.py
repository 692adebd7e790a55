"""Pictures as parts of a page: SVG made safe to stand beside others.

Only drawing elements and attributes that draw are let through; names of parts get a prefix, so
that the clip paths of two pictures do not clash; letters are kept once for the whole page; the
house colours become variables of the page, so that pictures turn dark with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from xml.etree import ElementTree

from attsvm.errors import BadTokens

_ELEMENTS = {
    "svg",
    "g",
    "defs",
    "path",
    "use",
    "clipPath",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "polygon",
    "image",
    "linearGradient",
    "radialGradient",
    "stop",
    "pattern",
    "mask",
    "text",
    "tspan",
}
_ATTRIBUTES = {
    "id",
    "d",
    "style",
    "transform",
    "x",
    "y",
    "x1",
    "y1",
    "x2",
    "y2",
    "r",
    "cx",
    "cy",
    "rx",
    "ry",
    "width",
    "height",
    "points",
    "clip-path",
    "viewBox",
    "preserveAspectRatio",
    "href",
    "offset",
    "gradientUnits",
    "gradientTransform",
    "patternUnits",
    "fill",
    "stroke",
    "opacity",
    "fill-opacity",
    "stroke-width",
    "mask",
    "text-anchor",
    "dx",
    "dy",
}
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
# Six decimals are far below a pixel: two are enough. Numbers below 10 may be scales and stay.
_DECIMALS = re.compile(r"(\d\d\.\d\d)\d+")

# Colours of the house style -> the page's variable, which has a light and a dark value.
THEMED = {
    "#ffffff": "paper",
    "#222222": "ink",
    "#6b6b6b": "quiet",
    "#d9d9d9": "faint",
    "#000000": "line",
    "#111111": "line",
    "#0072b2": "blue",
    "#d55e00": "orange",
    "#009e73": "green",
    "#cc79a7": "pink",
    "#e69f00": "gold",
    "#56b4e9": "sky",
}


class Letters:
    """The shapes of letters that the pictures of a page have in common, each kept once."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def name(self, shape: str) -> str:
        """The name on the page of a shape, given as the attributes of its path."""
        return self.names.setdefault(shape, f"letter-{len(self.names)}")

    def markup(self) -> str:
        """The shapes as a part of the page that is not seen."""
        paths = "".join(f'<path id="{name}"{shape}/>' for shape, name in self.names.items())
        return f'<svg class="letters" aria-hidden="true"><defs>{paths}</defs></svg>'


@dataclass(frozen=True)
class _Names:
    """How the names inside one picture are written on the page.

    used: the names that something refers to. shared: names of letters -> their names on the page.
    """

    prefix: str
    used: set[str]
    shared: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """A name as the page has it."""
        return self.shared.get(name, self.prefix + name)


def inline(svg: str, *, prefix: str, described: str, letters: Letters | None = None) -> str:
    """The SVG as a part of an HTML page, without anything that does not draw."""
    root = ElementTree.fromstring(svg)
    if _name(root.tag) != "svg":
        raise BadTokens("the picture's root is not svg")
    names = _Names(prefix, set(_REFERENCE.findall(svg)) | set(re.findall(r'href="#([^"]+)"', svg)))
    if letters is not None:
        for node in root.iter():
            if shape := _letter(node, names):
                names.shared[node.attrib["id"]] = letters.name(shape)
    view = root.get("viewBox") or f"0 0 {root.get('width')} {root.get('height')}"
    inside = "".join(_element(child, names) for child in root)
    return (
        f'<svg viewBox="{escape(view)}" role="img" aria-label="{escape(described)}">{inside}</svg>'
    )


def _letter(node: ElementTree.Element, names: _Names) -> str:
    """The attributes of a path that is the shape of a letter; nothing for any other element."""
    if _name(node.tag) != "path" or set(node.attrib) != {"id", "d", "transform"}:
        return ""
    return "".join(_attribute(key, node.attrib[key], names) for key in ("d", "transform"))


def _element(node: ElementTree.Element, names: _Names) -> str:
    """An element and what is inside it; nothing for one that does not draw."""
    name = _name(node.tag)
    if name not in _ELEMENTS or name == "svg" or node.attrib.get("id") in names.shared:
        return ""
    inside = "".join(_element(child, names) for child in node)
    if name in ("text", "tspan"):
        inside = escape(node.text or "") + inside
    if name in ("g", "defs") and not inside:
        return ""
    attributes = "".join(
        part for key, value in node.attrib.items() if (part := _attribute(key, value, names))
    )
    if name == "g" and not attributes:
        return inside
    return f"<{name}{attributes}>{inside}</{name}>" if inside else f"<{name}{attributes}/>"


def _attribute(key: str, value: str, names: _Names) -> str:
    """One attribute, its references renamed; nothing for one that does not draw."""
    name = _name(key)
    if name not in _ATTRIBUTES:
        return ""
    if name == "id":
        return f' id="{escape(names.of(value))}"' if value in names.used else ""
    if name == "href":
        if value.startswith("#"):
            return f' href="{escape("#" + names.of(value[1:]))}"'
        return f' href="{escape(value)}"' if value.startswith("data:image/png;base64,") else ""
    text = _REFERENCE.sub(lambda found: f"url(#{names.of(found[1])})", value)
    rest = _REFERENCE.sub("", value)
    if name not in ("transform", "gradientTransform") and ("(" in rest or "\\" in rest):
        return ""  # what calls a function may ask something of a network
    if name == "style":
        text = _COLOUR.sub(_variable, text).replace(": ", ":").replace("; ", ";")
    elif name in ("d", "points", "transform", "x", "y"):
        text = _DECIMALS.sub(r"\1", " ".join(text.split()))
    return f' {name}="{escape(text)}"'


def _variable(found: re.Match[str]) -> str:
    """The page's variable for a house colour; any other colour as it is."""
    name = THEMED.get(found[0].lower())
    return f"var(--{name})" if name else found[0]


def _name(tag: object) -> str:
    """A tag or attribute without its namespace; comments have none."""
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""

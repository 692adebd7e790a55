"""Hasse diagrams of the orders of next-token data: one box for each token or tied set.

What is above is drawn above. Lines are the covering edges alone: every other relation follows from
them. Places are in inches, with y upwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path as FilePath
from textwrap import wrap
from typing import Any

import numpy as np
import scipy
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.textpath import text_to_path

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token.order import Order
from attsvm.next_token.sentences import Sentences
from attsvm.plotting import style
from attsvm.plotting.style import Picture, write_figure

# Boxes in one picture, and in one of several side by side.
MOST, MOST_BESIDE = 40, 16
# Characters of a word; characters of a line and lines in the box of a tied set.
_WORD, _LINE, _LINES = 16, 24, 4
# Inches: a line of text, around the text of a box, between boxes, between rows, around the picture.
_TEXT, _PAD, _GAP, _DROP, _EDGE = 0.17, 0.08, 0.14, 0.5, 0.1
# Inches, on a screen and in print: no row of diagrams is wider, a single one may be.
_PAGE = {"screen": 14.0, "paper": style.COLUMN}

# Kind: its sign, the colours of its frame and ground.
_KINDS = {
    "optimal": ("▲", "#00795a", "#dcf2ea"),
    "confused": ("◆", "#a86400", "#fcefd5"),
    "non-optimal": ("▼", "#0072b2", "#dbeaf5"),
}
_LEGEND = {
    "optimal": "▲ optimal: nothing above",
    "confused": "◆ confused: something above, something below",
    "non-optimal": "▼ non-optimal: nothing below",
    "tied": "thick frame: tied, on a common cycle",
    "through": "dotted line: by way of tokens left out",
}


@dataclass(frozen=True, eq=False)
class _Diagram:
    """One order laid out: headings, boxes (text, kind, whether tied) at `centre` (n, 2), lines
    (name, points, whether dotted), and the inches that all of it takes."""

    heads: list[str]
    boxes: list[tuple[str, str, bool]]
    centre: Floats
    lines: list[tuple[str, Floats, bool]]
    size: tuple[float, float]

    @property
    def says(self) -> set[str]:
        """What the legend has to explain."""
        found = {kind for _, kind, _ in self.boxes}
        found |= {"tied" for _, _, tied in self.boxes if tied}
        return found | {"through" for _, _, dotted in self.lines if dotted}


def draw_order(order: Order, sentences: Sentences, file: FilePath, *, look: str = "screen") -> None:
    """Write the Hasse diagram of one order, in one move, in the format of the file's ending.

    A box stands as deep as the longest path from the top. Beyond 40 boxes the largest parts and,
    within a part, the boxes with most covering edges are drawn, and the picture says so.
    """
    _write([order], sentences, file, MOST, look, [])


def draw_orders(
    orders: Mapping[int, Order],
    sentences: Sentences,
    file: FilePath,
    *,
    most: int = 6,
    look: str = "screen",
) -> None:
    """Write the diagrams of the `most` queries with most tokens in relation, side by side.

    In print diagrams stand below one another where they are wider than a column.
    """
    if most < 1 or not orders:
        raise BadTokens(f"{len(orders)} orders with most = {most}: there must be one to draw")
    ranked = sorted(orders.values(), key=lambda order: (-len(order.tokens), order.query))
    note = f"{most} of {len(ranked)} queries, those with most tokens in relation"
    notes = [note] if len(ranked) > most else []
    _write(ranked[:most], sentences, file, MOST_BESIDE, look, notes)


def _write(
    orders: Sequence[Order],
    sentences: Sentences,
    file: FilePath,
    most: int,
    look: str,
    notes: list[str],
) -> None:
    """Write diagrams in rows, the legend below."""
    with style.styled(look):
        diagrams = [_diagram(order, sentences, most) for order in orders]
        told = [line for key, line in _LEGEND.items() if any(key in d.says for d in diagrams)]
        corners, x, y, deep = [], 0.0, 0.0, 0.0
        for wide, high in (diagram.size for diagram in diagrams):
            if x and x + wide > _PAGE[look]:
                x, y, deep = 0.0, y - deep - _DROP, 0.0
            corners.append((x, y))
            x, deep = x + wide + _DROP, max(deep, high)
        legend = [*notes, *told]
        ends = [corner[0] + d.size[0] for corner, d in zip(corners, diagrams, strict=True)]
        right = max(ends + [_width(line) for line in legend])
        bottom = y - deep - _DROP / 2 - len(legend) * _TEXT
        figure = Picture(figsize=(right + 2 * _EDGE, -bottom + 2 * _EDGE), look=look)
        ax = figure.add_axes((0, 0, 1, 1), frameon=False, xticks=[], yticks=[])
        ax.set(xlim=(-_EDGE, right + _EDGE), ylim=(bottom - _EDGE, _EDGE))
        for diagram, corner in zip(diagrams, corners, strict=True):
            _draw(ax, diagram, np.array(corner))
        _text(ax, 0.0, bottom, "\n".join(legend), ha="left", va="bottom")
        write_figure(figure, file)


def _draw(ax: Axes, diagram: _Diagram, corner: Floats) -> None:
    """Draw a diagram with its top left at the corner."""
    for k, head in enumerate(diagram.heads):
        weight = "normal" if k else "bold"
        _text(ax, corner[0], corner[1] - k * _TEXT, head, ha="left", va="top", weight=weight)
    for name, points, dotted in diagram.lines:
        dashes = ":" if dotted else "-"
        (line,) = ax.plot(*(points + corner).T, dashes, color=style.QUIET, linewidth=style.LINE)
        line.set_gid(name)
    for (text, kind, tied), (x, y) in zip(diagram.boxes, diagram.centre + corner, strict=True):
        sign, frame, ground = _KINDS[kind]
        box = {
            "boxstyle": f"round,pad={_PAD * 72 / style.TEXT}",
            "edgecolor": frame,
            "facecolor": ground,
            "linewidth": 2.6 if tied else 1.0,
        }
        _text(ax, x, y, f"{sign} {text}", bbox=box, zorder=3)


def _diagram(order: Order, sentences: Sentences, most: int) -> _Diagram:
    """One order, laid out."""
    shown = _shown(order, most)
    places = order.first[shown]
    groups = [order.tokens[order.component == c] for c in shown]
    texts = [_listed([_word(sentences, token) for token in group]) for group in groups]
    wide = np.array([max(map(_width, f"▲ {text}".split("\n"))) + 2 * _PAD for text in texts])
    tall = np.array([(text.count("\n") + 1) * _TEXT + 2 * _PAD for text in texts])
    edges, direct = _edges(order, places)
    row = np.zeros(len(shown), np.int64)  # the longest path from the top; boxes are in such order
    for i, j in sorted(edges):
        row[j] = max(row[j], row[i] + 1)
    x, trails = _across(row, edges, wide, order.parts[places])
    heads = [
        f"Query “{_word(sentences, order.query)}”",
        f"{len(order.tokens)} of {order.vocabulary} tokens in relation",
    ]
    if left_out := len(order.tokens) - sum(map(len, groups)):
        heads.append(f"{left_out} of them left out")
    high = np.array([tall[row == r].max() for r in range(row.max(initial=-1) + 1)])
    drop = max(_DROP, 0.06 * float(np.ptp(np.append(x, 0.0))))
    middle = -(len(heads) + 1) * _TEXT - (np.cumsum(high + drop) - high / 2 - drop)
    half = np.append(wide, np.zeros(len(x) - len(wide))) / 2
    x -= (x - half).min(initial=np.inf if len(x) else 0.0)
    right = max([*(x + half), *(1.15 * _width(head) for head in heads)])
    inset = tall / 2 - _PAD / 2  # lines end inside, behind their boxes
    lines = []
    for (i, j), trail, cover in zip(edges, trails, direct, strict=True):
        points = [(x[i], middle[row[i]] - inset[i])]
        for v, r in zip(trail, count(row[i] + 1)):  # straight down beside the boxes of a row
            points += [(x[v], middle[r] + high[r] / 2), (x[v], middle[r] - high[r] / 2)]
        ids = "-".join(map(str, [order.query, *order.tokens[places[[i, j]]]]))
        ends = np.array([*points, (x[j], middle[row[j]] + inset[j])])
        lines.append((f"edge-{ids}", ends, not cover))
    kinds = order.kinds[places].tolist()
    boxes = [(t, k, len(group) > 1) for t, k, group in zip(texts, kinds, groups, strict=True)]
    deep = high[-1] / 2 - middle[-1] if len(high) else len(heads) * _TEXT
    return _Diagram(
        heads, boxes, np.column_stack([x[: len(row)], middle[row]]), lines, (right, deep)
    )


def _shown(order: Order, most: int) -> Ints:
    """The components to draw, increasing: the largest parts that fit, or one grown by covers."""
    C, part = len(order.first), order.parts[order.first]
    hi, lo = (order.component[end] for end in order.covers)
    degree, sizes = np.bincount(np.concatenate([hi, lo]), minlength=C), np.bincount(part)
    if sizes.max(initial=0) <= most:
        largest = np.argsort(-sizes, kind="stable")
        return np.flatnonzero(np.isin(part, largest[np.cumsum(sizes[largest]) <= most]))
    kept = [int(np.argmax(degree * (part == np.argmax(sizes))))]
    while len(kept) < most:
        beside = np.union1d(lo[np.isin(hi, kept)], hi[np.isin(lo, kept)])
        beside = np.setdiff1d(beside, kept)
        kept.append(int(beside[np.argmax(degree[beside])]))
    return np.sort(kept)


def _edges(order: Order, places: Ints) -> tuple[list[tuple[int, int]], list[bool]]:
    """The covering edges among these boxes, and whether each is one of the whole order."""
    below = order.reach[np.ix_(places, places)] & ~np.eye(len(places), dtype=bool)
    pairs = np.argwhere(below & (below.astype(np.int64) @ below == 0)).tolist()
    whole = set(zip(*(end.tolist() for end in order.covers), strict=True))
    return [(i, j) for i, j in pairs], [(places[i], places[j]) in whole for i, j in pairs]


def _word(sentences: Sentences, token: int) -> str:
    """A token's word as it can be drawn; its number where the font lacks a letter."""
    word = sentences.word(token)[: _WORD + 1]
    signs = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in word]
    text = "".join(signs)
    text = text if len(text) <= _WORD else text[: _WORD - 1] + "…"
    font = get_font(findfont(FontProperties()))
    if not all(font.get_char_index(ord(c)) for c in text):
        return f"#{token}"
    return text if text.strip() else f"“{text}”"


def _listed(words: list[str]) -> str:
    """The words of a tied set in a few short lines."""
    rest = f" … ({len(words)} tied)"
    return "\n".join(wrap(" = ".join(words), _LINE, max_lines=_LINES, placeholder=rest))


def _width(text: str) -> float:
    """The width of a line of text in inches."""
    font = FontProperties(size=style.TEXT)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def _text(ax: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Words as they are: a dollar sign begins no formula."""
    look = {"fontsize": style.TEXT, "ha": "center", "va": "center", **look}
    ax.text(x, y, text, parse_math=False, **look)


def _across(
    row: Ints, edges: list[tuple[int, int]], wide: Floats, part: Ints
) -> tuple[Floats, list[list[int]]]:
    """(x of the boxes and then of the waypoints, the waypoints of each edge from the top).

    An edge has a waypoint in each row that it crosses. Rows are sorted by the mean place of the
    neighbours, down and up, and the sorting with fewest crossings is kept; then each row moves to
    the mean x of its neighbours, as near as its sorting and widths allow (an isotonic regression).
    """
    inner = [(r, part[i]) for i, j in edges for r in range(row[i] + 1, row[j])]
    level, parts = np.append(np.column_stack([row, part]), np.array(inner, int).reshape(-1, 2), 0).T
    width, number = np.append(wide, [0.0] * len(inner)), count(len(row))
    trails = [[next(number) for _ in range(row[i] + 1, row[j])] for i, j in edges]
    links = [
        link
        for (i, j), trail in zip(edges, trails, strict=True)
        for link in zip([i, *trail], [*trail, j], strict=True)
    ]
    a, b = np.array(links, np.int64).reshape(-1, 2).T
    near = np.zeros((len(level), len(level)))
    near[a, b] = near[b, a] = 1
    layers = [np.flatnonzero(level == r) for r in range(level.max(initial=-1) + 1)]
    at, x, fewest = np.arange(len(level), dtype=float), np.zeros(len(level)), np.inf
    for sweep in range(24):
        step = 1 if sweep % 2 == 0 else -1
        for r in range(len(layers))[::step]:
            side = near[layers[r]] * (level == r - step)
            mean = np.where(side.any(1), side @ at / np.maximum(side.sum(1), 1), at[layers[r]])
            layers[r] = layers[r][np.lexsort((mean, parts[layers[r]]))]
            at[layers[r]] = np.arange(len(layers[r]))
        crossed = (at[a][:, None] < at[a]) & (at[b][:, None] > at[b])
        crossings = int((crossed & (level[a][:, None] == level[a])).sum())
        if crossings < fewest:
            fewest, best = crossings, list(layers)
    for sweep in range(40):
        for layer in best[:: 1 if sweep % 2 == 0 else -1]:
            half = width[layer] / 2
            offset = np.cumsum(half + np.append(0.0, half[:-1] + _GAP))
            goal = near[layer] @ x / np.maximum(near[layer].sum(1), 1)
            x[layer] = scipy.optimize.isotonic_regression(goal - offset).x + offset
    return x, trails

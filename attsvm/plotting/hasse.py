"""Hasse diagrams of the orders of next-token data: one box for each token or tied set.

What is above is drawn above. Lines are the covering edges alone: every other relation follows from
them. Places are in inches, with y upwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path as FilePath
from textwrap import wrap
from typing import Any

import numpy as np
import scipy

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import BadTokens
from attsvm.next_token.order import Order
from attsvm.next_token.sentences import Sentences
from attsvm.plotting import style
from attsvm.plotting.style import write_figure

# Artists with the origin at top left, (width, height), and what the legend must explain.
Diagram = tuple[list[Any], tuple[float, float], set[str]]
# Boxes in one picture, and in one of several side by side.
MOST, MOST_BESIDE = 40, 16
# Characters of a word; characters of a line and lines in the box of a tied set.
_WORD, _LINE, _LINES = 16, 24, 4
# Inches: around a text, between boxes.
_PAD, _GAP = 0.06, 0.14
# Inches: a line of text or a sign, between rows, around the picture.
_TEXT, _DROP, _EDGE = 0.17, 0.55, 0.25
# Inches, on a screen and in print. A wider row has its words turned; no row of diagrams is wider.
_WIDEST = {"screen": 10.0, "paper": 2.9}
_PAGE = {"screen": 14.0, "paper": 3.15}
# Inches. No diagram by weights is higher.
_HIGHEST = 12.0

# Kind: its sign, the colours of its frame and ground. What a line says: its dashes.
_KINDS = {
    "optimal": ("▲", "#00795a", "#dcf2ea"),
    "confused": ("◆", "#a86400", "#fcefd5"),
    "non-optimal": ("▼", "#0072b2", "#dbeaf5"),
}
_DASHES: dict[str, Any] = {"cover": "solid", "through": (0, (1, 2)), "broken": (0, (5, 2))}
_LEGEND = {
    "optimal": "▲ optimal: nothing above",
    "confused": "◆ confused: something above, something below",
    "non-optimal": "▼ non-optimal: nothing below",
    "tied": "thick frame: tied, on a common cycle",
    "through": "dotted line: by way of tokens left out",
    "broken": "dashed line: rises in these weights",
    "scale": "height: the weight of the token",
}


def draw_order(
    order: Order,
    sentences: Sentences,
    file: FilePath,
    *,
    weights: Any = None,
    look: str = "screen",
) -> None:
    """Write the Hasse diagram of one order, in one move, in the format of the file's ending.

    A box stands as deep as the longest path from the top; with weights u (N,), the query's column
    of W_kq, at the height u, so that the picture shows margins. Beyond 40 boxes the largest parts
    and, within a part, the boxes with most covering edges are drawn, and the picture says so.
    """
    u = None if weights is None else np.asarray(weights, np.float64)
    if u is not None and (u.shape != (order.vocabulary,) or not np.isfinite(u).all()):
        raise BadTokens(
            f"weights {u.shape} must be {order.vocabulary} finite numbers, one per token"
        )
    with style.styled(look):
        _page([_diagram(order, sentences, u, MOST, _WIDEST[look])], [], file, look)


def draw_orders(
    orders: Mapping[int, Order],
    sentences: Sentences,
    file: FilePath,
    *,
    most: int = 6,
    look: str = "screen",
) -> None:
    """Write the diagrams of the `most` queries with most tokens in relation, side by side.

    In print words are turned and diagrams stand below one another to keep to a column; a diagram
    of many boxes is wider than one still.
    """
    if most < 1 or not orders:
        raise BadTokens(f"{len(orders)} orders with most = {most}: there must be one to draw")
    ranked = sorted(orders.values(), key=lambda order: (-len(order.tokens), order.query))
    note = f"{most} of {len(ranked)} queries, those with most tokens in relation"
    with style.styled(look):
        wide = _WIDEST[look]
        drawn = [_diagram(order, sentences, None, MOST_BESIDE, wide) for order in ranked[:most]]
        _page(drawn, [note] if len(ranked) > most else [], file, look)


def _diagram(
    order: Order, sentences: Sentences, u: Floats | None, most: int, widest: float = 10.0
) -> Diagram:
    """One order, laid out and made of artists."""
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path
    from matplotlib.ticker import MaxNLocator

    shown = _shown(order, most)
    n, places = len(shown), order.first[shown]
    groups = [order.tokens[order.component == c] for c in shown]
    kinds = order.kinds[places].tolist()
    texts = [_listed([_word(sentences, token) for token in group]) for group in groups]
    shape = [(max(map(_width, text.split("\n"))), text.count("\n") + 1) for text in texts]
    size = np.array(shape).reshape(n, 2) * (1.0, _TEXT) + (_TEXT + 2 * _PAD, 2 * _PAD)
    edges, direct = _edges(order, places)
    row = np.zeros(n, np.int64)  # the longest path from the top; boxes are in topological order
    for i, j in sorted(edges):
        row[j] = max(row[j], row[i] + 1)
    if u is not None:
        height = np.array([u[group].mean() for group in groups])
        row = np.unique(np.round(-2 * height), return_inverse=True)[1]  # margins are 1: two rows
    turned = (np.bincount(row, size[:, 0] + _GAP) > widest)[row]
    size[turned] = size[turned, ::-1]
    tall = np.array([size[row == r, 1].max() for r in range(row.max(initial=-1) + 1)])
    size[turned, 1] = tall[row[turned]]
    x, trails = _across(row, edges, size[:, 0], order.parts[places])
    heads = [
        f"Query “{_word(sentences, order.query)}”",
        f"{len(order.tokens)} of {order.vocabulary} tokens in relation",
    ]
    if left_out := len(order.tokens) - sum(map(len, groups)):
        heads.append(f"{left_out} of them left out")
    top, left, scale = -len(heads) * _TEXT - 3 * _PAD, 0.0, []
    drop = max(_DROP, 0.06 * float(np.ptp(np.append(x, 0.0))))
    y = top - (np.cumsum(tall + drop) - tall / 2 - drop)[row]
    if u is not None and n:
        unit = min(2 * tall.max() + drop, _HIGHEST / max(float(np.ptp(height)), 1.0))
        shift, left = top - (height * unit + size[:, 1] / 2).max(), 0.6
        y = height * unit + shift
        x[:n] = _apart(x[:n], y, size)
        ticks = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(height.min(), height.max())
        scale = [(t * unit + shift, f"{t:g}") for t in ticks if height.min() <= t <= height.max()]
    half = np.append(size[:, 0], np.zeros(len(x) - n)) / 2
    x += left - (x - half).min(initial=np.inf if n else left)
    right = max([*(x + half), *(1.15 * _width(head) for head in heads)])
    made = _lines(heads)
    for at, name in scale:
        made += [
            _text((0.35, at), name, ha="right", color=style.QUIET),
            PathPatch(Path([(0.4, at), (right, at)]), color=style.FAINT),
        ]
    says = {*kinds, "tied" if n < sum(map(len, groups)) else "", "scale" if scale else ""}
    for (i, j), trail, cover in zip(edges, trails, direct, strict=True):
        start, end = y[i] - size[i, 1] / 2, y[j] + size[j, 1] / 2
        start, end = (start, end) if start > end else (y[i], y[j])
        look = ("cover" if cover else "through") if start > end else "broken"
        points = [(x[i], start)]
        for v, r in zip(trail, count(row[i] + 1)):  # straight down beside the boxes of a row
            high, low = y[row == r].mean() + np.array([0.5, -0.5]) * tall[r]
            if end < low and high < points[-1][1]:
                points += [(x[v], high), (x[v], low)]
        ids = "-".join(map(str, [order.query, *order.tokens[places[[i, j]]]]))
        made.append(
            PathPatch(
                Path([*points, (x[j], end)]),
                fill=False,
                ls=_DASHES[look],
                lw=style.LINE,
                color=style.QUIET,
                gid=f"edge-{ids}",
            )
        )
        says.add(look)
    for k, kind in enumerate(kinds):
        sign, frame, ground = _KINDS[kind]
        centre, toward = np.array([x[k], y[k]]), np.array([0, 1] if turned[k] else [-1, 0])
        made += [
            FancyBboxPatch(
                centre - size[k] / 2,
                size[k, 0],
                size[k, 1],
                edgecolor=frame,
                boxstyle="round,pad=0,rounding_size=0.06",
                facecolor=ground,
                zorder=3,
                lw=2.6 if len(groups[k]) > 1 else 1.0,
            ),
            _text(centre + toward * (size[k] - _TEXT - 2 * _PAD) / 2, sign, color=frame, zorder=4),
            _text(
                centre - toward * _TEXT / 2,
                texts[k],
                zorder=4,
                rotation=90.0 * turned[k],
                va="center" if turned[k] else "center_baseline",
            ),
        ]
    return made, (right, -(y - size[:, 1] / 2).min(initial=top)), says


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
    from matplotlib.font_manager import FontProperties, findfont, get_font

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
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=style.TEXT)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def _text(at: Any, text: str, **look: Any) -> Any:
    """Words as they are: a dollar sign begins no formula."""
    from matplotlib.text import Text

    look = {"fontsize": style.TEXT, "ha": "center", "va": "center_baseline", **look}
    return Text(at[0], at[1], text, parse_math=False, **look)


def _lines(texts: list[str], first: str = "bold") -> list[Any]:
    """Lines of text from the top left."""
    return [
        _text((0, -_TEXT * k), text, weight="normal" if k else first, va="top", ha="left")
        for k, text in enumerate(texts)
    ]


def _page(diagrams: list[Diagram], notes: list[str], file: FilePath, look: str) -> None:
    """Write diagrams in rows, the legend below."""
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D

    legend = notes + [line for key, line in _LEGEND.items() if any(key in d[2] for d in diagrams)]
    corners, x, y, deep = [], 0.0, 0.0, 0.0
    for _, (wide, high), _ in diagrams:
        if x and x + wide > _PAGE[look]:
            x, y, deep = 0.0, y - deep - _DROP, 0.0
        corners.append((x, y))
        x, deep = x + wide + 2 * _DROP, max(deep, high)
    y -= deep + _DROP / 2
    ends = [c[0] + frame[0] for c, (_, frame, _) in zip(corners, diagrams, strict=True)]
    right = max(ends + [_width(line) for line in legend])
    bottom = y - len(legend) * _TEXT
    edge = _EDGE if look == "screen" else 0.05
    figure = Figure(figsize=(right + 2 * edge, -bottom + 2 * edge))
    ax = figure.add_axes((0, 0, 1, 1), frameon=False, xticks=[], yticks=[])
    ax.set(xlim=(-edge, right + edge), ylim=(bottom - edge, edge))
    drawn = [*(artists for artists, _, _ in diagrams), _lines(legend, "normal")]
    for artists, corner in zip(drawn, [*corners, (0.0, y)], strict=True):
        for artist in artists:
            artist.set_transform(Affine2D().translate(*corner) + ax.transData)
            ax.add_artist(artist)
    write_figure(figure, file)


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


def _apart(x: Floats, y: Floats, size: Floats) -> Floats:
    """x with boxes that would overlap moved to the nearest free place, from the top down."""
    x, order = x.copy(), np.lexsort((x, -y))
    for t, i in enumerate(order):
        near = [j for j in order[:t] if abs(y[i] - y[j]) < (size[i, 1] + size[j, 1]) / 2 + _PAD]
        space = np.array([(size[i, 0] + size[j, 0]) / 2 + _GAP for j in near])
        goals = np.concatenate([[x[i]], x[near] - space, x[near] + space])
        free = [g for g in goals if (np.abs(g - x[near]) >= space - 1e-9).all()]
        x[i] = min(free, key=lambda goal: abs(goal - goals[0]))
    return x

"""Hasse diagrams: every word and covering edge is there, points down, and nothing overlaps."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.transforms import Bbox

from attsvm import Sentences
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.order import Order, orders
from attsvm.plotting import hasse
from attsvm.plotting.hasse import MOST, MOST_BESIDE, draw_order, draw_orders

WORDS = ["the", "a", "cat", "dog", "sat", "mat", "on", "runs", "house", "tree", "bird", "sings",
         "river", "flows", "tall", "short"]  # fmt: skip
HOSTILE = ["<script>alert('x')</script>", "$x$", "$", "m" * 400, "", "  ", "\n\x00\t", "日本", "--",
           "&amp;<!--", "\ud800", "]]>", "$\\frac{$", "_x_", "٣عربي", "%s{0}"]  # fmt: skip


def made(words, lines, query):
    """Sentences whose label is the optimal token itself, and the order of one query."""
    data = Sentences.of(lines, vocabulary=words, collocations="copy")
    return data, orders(data)[words.index(query)]


def drawn(size, count, noise, seed, most=3):
    """A random order of `size` words: the least number of a sentence is optimal, save for noise."""
    rng = np.random.default_rng(seed)
    words = [f"w{k}" + "abcdefgh"[: rng.integers(0, 9)] for k in range(size)]
    lines = []
    for _ in range(count):
        tokens = rng.choice(size - 1, int(rng.integers(1, most + 1)), replace=False).tolist()
        best = tokens[0] if rng.random() < noise else min(tokens)
        lines.append([*(words[t] for t in tokens), words[-1], words[best]])
    return made(words, lines, words[-1])


def edges(file):
    """Points (p, 2) of each edge of an SVG file, y downwards, by name."""
    root = ElementTree.parse(file).getroot()
    found = {}
    for node in root.iter():
        if node.get("id", "").startswith("edge-"):
            (path,) = [child for child in node.iter() if child.tag.endswith("}path")]
            numbers = re.findall(r"-?[\d.]+", path.get("d"))
            assert node.get("id") not in found
            found[node.get("id")] = np.array(numbers, float).reshape(-1, 2)
    return found


def said(file):
    """Every line of text of an SVG file, as its comments tell it."""
    return re.findall(r"<!-- (.*?) -->", file.read_text("utf-8"))


def placed(order, data, monkeypatch):
    """(extents of the boxes in pixels by their text, of the whole picture) of a drawn order."""
    kept = []
    monkeypatch.setattr(hasse, "write_figure", lambda figure, file: kept.append(figure))
    draw_order(order, data, Path("order.svg"))
    figure = kept[0]
    figure.draw_without_rendering()
    texts = [text for text in figure.axes[0].texts if text.get_bbox_patch() is not None]
    return [(text, text.get_bbox_patch().get_window_extent()) for text in texts], figure


RANDOM = [
    (16, 14, 0.0), (16, 30, 0.0), (16, 30, 0.3), (30, 25, 0.0), (38, 60, 0.0), (40, 200, 0.05),
]  # fmt: skip


@pytest.mark.parametrize(("size", "count", "noise"), RANDOM)
def test_every_covering_edge_points_down(size, count, noise, tmp_path):
    data, order = drawn(size, count, noise, seed=size + count)
    draw_order(order, data, tmp_path / "order.svg")
    found = edges(tmp_path / "order.svg")
    hi, lo = (order.tokens[end] for end in order.covers)
    assert set(found) == {f"edge-{order.query}-{i}-{j}" for i, j in zip(hi, lo, strict=True)}
    assert len(found) == len(hi)
    for points in found.values():
        assert (np.diff(points[:, 1]) >= 0).all()
        assert points[-1, 1] > points[0, 1]


@pytest.mark.parametrize(("size", "count", "noise"), [*RANDOM, (90, 200, 0.0), (90, 90, 0.01)])
def test_nothing_overlaps_and_lines_join_their_boxes(size, count, noise, monkeypatch):
    data, order = drawn(size, count, noise, seed=size + count)
    found, figure = placed(order, data, monkeypatch)
    frames = [frame for _, frame in found]
    assert len(frames) == min(len(order.first), MOST)
    for k, frame in enumerate(frames):
        assert figure.bbox.x0 <= frame.x0 and frame.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= frame.y0 and frame.y1 <= figure.bbox.y1
        for other in frames[:k]:
            assert Bbox.intersection(frame, other) is None
    ax = figure.axes[0]
    for text in ax.texts:
        extent = text.get_window_extent()
        assert figure.bbox.x0 <= extent.x0 and extent.x1 <= figure.bbox.x1
    words = [text.get_text()[2:] for text, _ in found]
    for line in ax.lines:
        ends = ax.transData.transform(line.get_xydata())[[0, -1]]
        names = [data.word(int(token)) for token in line.get_gid().split("-")[2:]]
        for end, name in zip(ends, names, strict=True):
            at = [k for k, word in enumerate(words) if name in word.replace("\n", " ").split(" = ")]
            assert not at or frames[at[0]].padded(4).contains(*end)


def test_words_kinds_and_ties_are_told(tmp_path):
    lines = [["cat", "the", "cat"], ["cat", "dog", "the", "cat"], ["dog", "mat", "the", "dog"],
             ["mat", "dog", "the", "mat"], ["bird", "sat", "the", "bird"]]  # fmt: skip
    data, order = made(WORDS, lines, "the")
    draw_order(order, data, tmp_path / "order.svg")
    text = said(tmp_path / "order.svg")
    assert {"Query “the”", "▲ cat", "◆ dog = mat", "▲ bird", "▼ sat", "▼ the"} <= set(text)
    assert "6 of 16 tokens in relation" in text
    assert "◆ confused: something above, something below" in text
    assert "thick frame: tied, on a common cycle" in text
    assert not any("left out" in line for line in text)


def test_kinds_differ_in_sign_and_colour(monkeypatch):
    data, order = made(WORDS, [["cat", "dog", "the", "cat"], ["dog", "the", "dog"]], "the")
    found, _ = placed(order, data, monkeypatch)
    assert [text.get_text()[0] for text, _ in found] == ["▲", "◆", "▼"]
    frames = [text.get_bbox_patch() for text, _ in found]
    assert len({a.get_edgecolor() for a in frames}) == len({a.get_facecolor() for a in frames}) == 3


def test_a_large_order_says_what_is_left_out(tmp_path):
    data, order = drawn(90, 300, 0.0, seed=1, most=2)
    assert len(order.first) > MOST and order.parts.max() == 0
    draw_order(order, data, tmp_path / "order.svg")
    text = said(tmp_path / "order.svg")
    assert f"{len(order.tokens) - MOST} of them left out" in text
    assert sum(bool(re.match("[▲◆▼] w", line)) for line in text) == MOST
    # Among the tokens drawn, the lines say what the whole order says.
    pairs = [tuple(map(int, name.split("-")[2:])) for name in edges(tmp_path / "order.svg")]
    shown, ends = np.unique(np.array(pairs), return_inverse=True)
    told = Order(0, order.vocabulary, shown, *ends.reshape(-1, 2).T, np.zeros(len(pairs), int))
    places = np.searchsorted(order.tokens, shown)
    np.testing.assert_array_equal(told.reach, order.reach[np.ix_(places, places)])
    direct = set(zip(*(order.tokens[end].tolist() for end in order.covers), strict=True))
    assert ("dotted line: by way of tokens left out" in text) == bool(set(pairs) - direct)


def test_of_many_parts_the_largest_that_fit_are_drawn(tmp_path):
    """Stars of 7, 30, 12 and 3 tokens: 30 and nothing after it, as 12 more are over 40."""
    data = Sentences.of([["x", "y", "x"]], vocabulary=[f"w{k}" for k in range(50)] + ["x", "y"])
    top = np.repeat([0, 7, 37, 49], [6, 29, 11, 2])
    below = np.setdiff1d(np.arange(52), [0, 7, 37, 49])
    order = Order(0, 52, np.arange(52), top, below, np.zeros(48, np.int64))
    draw_order(order, data, tmp_path / "order.svg")
    text = said(tmp_path / "order.svg")
    assert {int(word[3:]) for word in text if re.fullmatch(r"[▲◆▼] w\d+", word)} == set(
        range(7, 37)
    )
    assert "22 of them left out" in text
    assert len(edges(tmp_path / "order.svg")) == 29


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_hostile_words_do_no_harm(ending, tmp_path):
    lines = [[a, b, a] for a, b in pairwise(HOSTILE)]
    lines += [[word, HOSTILE[0], word] for word in HOSTILE[1:]]
    lines += [[*HOSTILE[3:5], HOSTILE[0], word] for word in HOSTILE[3:5]]
    data = Sentences.of(lines, vocabulary=HOSTILE, collocations="copy")
    found = orders(data)
    file = tmp_path / f"order.{ending}"
    draw_order(found[0], data, file)
    draw_orders(found, data, tmp_path / f"orders.{ending}", most=20)
    assert file.stat().st_size > 1000
    if ending == "svg":
        root = ElementTree.parse(file).getroot()
        assert not [node for node in root.iter() if "script" in str(node.tag)]
        text = {line.lstrip("▲◆▼ ") for line in said(file)}
        assert {"$x$", "$", "“  ”", "\\n\\x00\\t", "#7", "\\ud800", "_x_"} <= text
        assert any(line.startswith("m" * 15 + "…") for line in text)
        assert "m" * 16 not in file.read_text("utf-8")


def test_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(160):
        tokens = rng.integers(0, 16, 4).tolist()
        lines.append([WORDS[t] for t in tokens] + [WORDS[min(tokens)]])
    data = Sentences.of(lines, vocabulary=WORDS, collocations="copy")
    found = orders(data)
    draw_orders(found, data, tmp_path / "orders.svg", most=4)
    text = said(tmp_path / "orders.svg")
    largest = sorted(found.values(), key=lambda order: (-len(order.tokens), order.query))[:4]
    queries = [line for line in text if line.startswith("Query")]
    assert queries == [f"Query “{WORDS[order.query]}”" for order in largest]
    assert f"4 of {len(found)} queries, those with most tokens in relation" in text
    names = edges(tmp_path / "orders.svg")
    for order in largest:
        assert len(order.first) <= MOST_BESIDE
        mine = [name for name in names if name.startswith(f"edge-{order.query}-")]
        assert len(mine) == len(order.covers[0])
    draw_orders(found, data, tmp_path / "all.svg", most=99)
    assert not any("queries" in line for line in said(tmp_path / "all.svg"))


def test_an_order_without_edges_can_be_drawn(tmp_path):
    data = Sentences.of([["cat", "dog", "mat"]], vocabulary=WORDS, collocations="copy")
    (order,) = orders(data).values()
    draw_order(order, data, tmp_path / "order.svg")
    assert "0 of 16 tokens in relation" in said(tmp_path / "order.svg")


def test_pictures_repeat_themselves_whatever_the_users_style(tmp_path):
    data, order = drawn(20, 30, 0.1, seed=4)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    for name in ("order.svg", "order.png", "order.pdf"):
        draw_order(order, data, tmp_path / "one" / name)
        with matplotlib.rc_context({"font.size": 30, "font.family": "serif"}):
            draw_order(order, data, tmp_path / "two" / name)
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert len(list((tmp_path / "one").iterdir())) == 3
    assert imread(tmp_path / "one" / "order.png").ndim == 3


def test_what_cannot_be_drawn_is_refused(tmp_path):
    data, order = drawn(10, 10, 0.0, seed=0)
    with pytest.raises(Unsupported, match="svg"):
        draw_order(order, data, tmp_path / "order.gif")
    for found, most in (({}, 3), ({0: order}, 0)):
        with pytest.raises(BadTokens, match="one to draw"):
            draw_orders(found, data, tmp_path / "order.svg", most=most)
    assert list(tmp_path.iterdir()) == []

"""capture(): heads of a model on texts, as Views; one query from each text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Ints
from attsvm._utils.memory import HEADROOM, available, require
from attsvm._utils.progress import bar
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.by_torch import forward_of
from attsvm.inspection.model import TrainedModel
from attsvm.inspection.pieces import Floats32
from attsvm.inspection.reader import EncodedTexts
from attsvm.inspection.transformer import Transformer
from attsvm.inspection.view import Turns, View

# Tokens that go through a layer at once.
_TOKENS = 2048


@dataclass(frozen=True)
class Draw:
    """Which queries are taken: one from each text.

    queries: how many texts, drawn without repetition; all of them, in their order, without it.
    seed: of that draw, and of the positions. length: tokens that a text is cut to, special ones
    included; whole texts without it. at: the position of every query, or one number per text;
    negative ones count from the end; drawn at random without it, from the second token on where a
    query sees only what stands before it.

    >>> Draw(queries=200, length=32)
    Draw(queries=200, seed=0, length=32, at=None)
    """

    queries: int | None = None
    seed: int = 0
    length: int | None = None
    at: int | Sequence[int] | None = None


def capture(
    model: TrainedModel,
    texts: Sequence[str],
    *,
    layer: int,
    head: int,
    queries: int | None = None,
    seed: int = 0,
    length: int | None = None,
    at: int | Sequence[int] | None = None,
) -> View:
    """The View of one head on the texts. Layers and heads are numbered from 0.

    queries, seed, length, at: as in `Draw`.

    >>> from attsvm.inspection import untrained_model
    >>> view = capture(untrained_model(), ["a b c", "d e"], layer=1, head=0, at=0)
    >>> view.keys.shape, view.W.shape
    ((2, 5, 8), (8, 9))
    >>> view.texts[1], view.attention().sum(axis=1)
    (('[CLS]', 'd', 'e', '[SEP]'), array([1., 1.]))
    """
    draw = Draw(queries, seed, length, at)
    return next(capture_layers(model, texts, layers=[layer], heads=[head], draw=draw))


def capture_layers(
    model: TrainedModel,
    texts: Sequence[str],
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    draw: Draw = Draw(),  # noqa: B008
) -> Iterator[View]:
    """The Views of many heads, layer by layer; all layers and heads unless they are named.

    One forward pass serves all heads. The heads of a layer share their keys, and nothing of a layer
    is kept once the next one is asked for.

    >>> from attsvm.inspection import untrained_model
    >>> [(v.layer, v.head) for v in capture_layers(untrained_model(), ["a b c", "d e"])]
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    body = model.transformer
    chosen = _numbers(layers, len(body.layers), "layer")
    among = _numbers(heads, body.heads, "attention head")
    read, positions = _draw(model, texts, draw)
    _check_memory(body, read)
    return _views(body, read, positions, (chosen, among))


def _views(
    body: Transformer, read: EncodedTexts, positions: Ints, wanted: tuple[list[int], list[int]]
) -> Iterator[View]:
    layers, heads = wanted
    n, T = read.ids.shape
    batches = _batches(read.valid)
    step = forward_of(body, int(read.valid.sum()))
    x = np.zeros((n, T, body.features), dtype=np.float32)
    for rows, t in batches:
        with np.errstate(over="ignore", invalid="ignore"):
            x[rows, :t] = body.embedding(read.ids[rows, :t])
        _check_finite(x[rows, :t], "the embedding")
    valid = read.valid & body.sight(T)[positions]
    turns = None
    if body.rotary is not None:
        turns = Turns(*body.rotary(positions[:, None] - np.arange(T)))
    for layer in range(max(layers) + 1):
        if layer in layers:
            keys, queries = _keys_and_queries(body, layer, x, read.valid, positions)
            for head in heads:
                yield View(
                    layer=layer,
                    head=head,
                    keys=keys,
                    queries=queries,
                    **body.factors(layer, head),
                    valid=valid,
                    ids=read.ids,
                    special=read.special,
                    positions=positions,
                    texts=read.tokens,
                    turns=turns,
                )
            del keys, queries
        if layer < max(layers):
            with bar(f"layers 0 to {max(layers)}: at {layer}") as show:
                for done, (rows, t) in enumerate(batches):
                    with np.errstate(over="ignore", invalid="ignore"):
                        x[rows, :t] = step(layer, x[rows, :t], read.valid[rows, :t])
                    _check_finite(x[rows, :t], f"layer {layer}")
                    if show is not None:
                        show((done + 1) / len(batches))


def _check_finite(x: Floats32, what: str) -> None:
    if not np.isfinite(x).all():
        raise BadTokens(
            f"{what} gives numbers that are not finite: its weights are too large for single "
            "precision"
        )


def _keys_and_queries(
    body: Transformer, layer: int, x: Floats32, valid: Bools, positions: Ints
) -> tuple[Floats32, NDArray[np.float64]]:
    """Keys (n, T, d) and queries (n, dq) of a layer; rows beyond a text's end repeat its first."""
    n, T, d = x.shape
    keys = np.ones((n, T, d + body.keys_end_in_one(layer)), dtype=np.float32)
    for i in range(0, n, max(1, _TOKENS // T)):
        rows = slice(i, i + max(1, _TOKENS // T))
        keys[rows, :, :d] = body.attention_input(layer, x[rows])
    beyond = np.nonzero(~valid)
    keys[beyond] = keys[beyond[0], 0]
    queries = keys[np.arange(n), positions, :d].astype(np.float64)
    if body.queries_end_in_one(layer):
        queries = np.column_stack([queries, np.ones(n)])
    return keys, queries


def _batches(valid: Bools) -> list[tuple[Ints, int]]:
    """Rows of texts of about the same length, and that length; at most _TOKENS tokens at once."""
    lengths = valid.sum(axis=1)
    order = np.argsort(-lengths, kind="stable")
    found = []
    while len(order):
        t = int(lengths[order[0]])
        size = max(1, _TOKENS // t)
        found.append((order[:size], t))
        order = order[size:]
    return found


def _numbers(asked: Sequence[int] | None, count: int, what: str) -> list[int]:
    if asked is None:
        return list(range(count))
    if not len(asked):
        raise Unsupported(f"no {what} is asked for; {what}s run from 0 to {count - 1}")
    for one in asked:
        if isinstance(one, bool) or not isinstance(one, int | np.integer) or not 0 <= one < count:
            raise Unsupported(f"{what} is {one}; {what}s run from 0 to {count - 1}")
    return sorted({int(one) for one in asked})


def check_texts(texts: Sequence[str]) -> None:
    """Raises BadTokens unless these are texts, at least one, that a file in UTF-8 can hold."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise BadTokens(
            "texts must be a list of strings; attsvm.inspection.read_passages reads a file"
        )
    if not len(texts):
        raise BadTokens("there is no text: give at least one")
    for i, text in enumerate(texts):
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise BadTokens(f"text {i} has half of a letter, which no file in UTF-8 holds")


def check_count(value: Any, name: str) -> None:
    """Raises BadTokens unless this is a whole number from 0, or None."""
    if value is not None and (not isinstance(value, int | np.integer) or value < 0):
        raise BadTokens(f"{name} is {value!r}; it must be a whole number from 0")


def _draw(model: TrainedModel, texts: Sequence[str], draw: Draw) -> tuple[EncodedTexts, Ints]:
    """The drawn texts as numbers, and where their queries stand."""
    check_texts(texts)
    for name in ("queries", "seed", "length"):
        check_count(getattr(draw, name), name)
    body = model.transformer
    rng = np.random.default_rng(draw.seed)
    rows = np.arange(len(texts))
    if draw.queries is not None:
        if not 1 <= draw.queries <= len(texts):
            raise BadTokens(
                f"queries is {draw.queries} and there are {len(texts)} texts, one query each: give "
                f"1 to {len(texts)}, or more text"
            )
        rows = np.sort(rng.permutation(len(texts))[: draw.queries])
    read = model.reader.encode(
        [texts[int(i)] for i in rows], length=draw.length, longest=body.longest
    )
    if read.ids.max() >= len(body.embedding.words):
        raise BadTokens(
            f"token {read.ids.max()} is beyond the {len(body.embedding.words)} words of the model: "
            "its tokenizer is another's"
        )
    lengths = read.valid.sum(axis=1)
    return read, _positions(draw.at, lengths, rng, int(body.causal))


def _positions(at: Any, lengths: Ints, rng: np.random.Generator, first: int) -> Ints:
    if at is None:
        if lengths.min() <= first:
            raise BadTokens(
                f"text {lengths.argmin()} has one token: a query that sees what stands before it "
                "needs two"
            )
        return rng.integers(first, lengths)
    given = np.asarray(at)
    if given.dtype.kind not in "iu" or given.shape not in ((), lengths.shape):
        raise BadTokens(f"at must be a whole number, or {len(lengths)} of them, one for each text")
    places = np.broadcast_to(given.astype(np.int64), lengths.shape)
    wrong = np.flatnonzero((places >= lengths) | (places < -lengths))
    if len(wrong):
        i = wrong[0]
        raise BadTokens(f"at is {places[i]} for text {i}, which has {lengths[i]} tokens")
    return places % lengths


def _check_memory(body: Transformer, read: EncodedTexts) -> None:
    """Raises TooLarge, with what would fit, unless stream, keys and one batch fit in memory."""
    n, T = read.ids.shape
    held = 8.0 * T * (body.features + 1) + 10.0 * T
    if body.rotary is not None:
        held += 32.0 * T * body.width
    tokens = max(T, _TOKENS)
    wide = len(body.layers[0].mlp.up.weight)
    batch = 4.0 * tokens * (4 * wide + 8 * body.features + 3 * body.heads * T)
    fit = int((HEADROOM * available() - batch) // held) if np.isfinite(available()) else n
    use = f"queries={fit}" if fit > 0 else "a smaller length"
    require(n * held + batch, f"capturing {n} texts of {T} tokens", use=use)

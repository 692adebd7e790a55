"""Capturing heads: Views against slow loops, one query per text, memory, and what is refused."""

import gc
import tracemalloc

import numpy as np
import pytest

import attsvm
from attsvm.inspection import Draw, capture, capture_layers, load
from attsvm.inspection import capturing as module
from tests.inspection.plain import attention_of
from tests.inspection.tiny import CONFIGS, tensors, write
from tests.tolerances import EXACTLY, SINGLE

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")

TEXTS = ["a b c", "d e f g h i", "j", "k l m n"]


@pytest.mark.parametrize("kind", CONFIGS)
def test_views_attend_as_loops_do(kind, tmp_path):
    """Every place of two texts of unlike length is a query, against loops over each text alone."""
    model = load(write(tmp_path, kind))
    texts, at = [TEXTS[0]] * 5 + [TEXTS[1]] * 8, [*range(5), *range(8)]
    views = list(capture_layers(model, texts, draw=Draw(at=at)))
    for rows in (range(5), range(5, 13)):
        T = len(views[0].texts[rows[0]])
        assert len(rows) == T
        expected = attention_of(
            CONFIGS[kind], tensors(CONFIGS[kind]), list(views[0].ids[rows[0], :T])
        )
        assert len(expected) == len({view.layer for view in views})
        for view in views:
            shares = view.attention()[rows]
            np.testing.assert_allclose(shares[:, :T], expected[view.layer][view.head], atol=SINGLE)
            assert not shares[:, T:].any()
    # The weights are loud enough that a wrong map would show.
    assert max(np.ptp(view.attention()[-1]) for view in views) > 0.3


def test_all_layers_and_heads_come_in_order(tmp_path):
    model = load(write(tmp_path, "bert"))
    views = list(capture_layers(model, TEXTS))
    assert [(view.layer, view.head) for view in views] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert views[2].keys is views[3].keys  # the heads of a layer share them
    some = list(capture_layers(model, TEXTS, layers=[1], heads=[1]))
    assert [(view.layer, view.head) for view in some] == [(1, 1)]
    np.testing.assert_array_equal(some[0].keys, views[3].keys)
    one = capture(model, TEXTS, layer=1, head=1)
    np.testing.assert_array_equal(one.attention(), views[3].attention())


def test_the_pass_ends_with_the_last_layer_that_is_asked_for(tmp_path, monkeypatch):
    model = load(write(tmp_path, "bert"))
    run = []
    step = type(model.transformer).step
    monkeypatch.setattr(
        type(model.transformer),
        "step",
        lambda self, layer, *rest: run.append(layer) or step(self, layer, *rest),
    )
    capture(model, TEXTS, layer=0, head=0)
    assert run == []
    capture(model, TEXTS, layer=1, head=0)
    assert run == [0]


def test_rows_beyond_the_end_repeat_a_key(tmp_path):
    view = capture(load(write(tmp_path, "gpt2")), TEXTS, layer=1, head=0)
    n, T, _ = view.keys.shape
    ends = [len(words) for words in view.texts]
    assert (n, T) == (4, 8)
    assert min(ends) < T
    for i, end in enumerate(ends):
        for t in range(end, T):
            np.testing.assert_array_equal(view.keys[i, t], view.keys[i, 0])
            assert not view.valid[i, t]
        assert view.valid[i].sum() == view.positions[i] + 1  # causal


def test_batches_change_nothing(tmp_path, monkeypatch):
    model = load(write(tmp_path, "llama"))
    whole = capture(model, TEXTS, layer=1, head=2)
    monkeypatch.setattr(module, "_TOKENS", 1)
    parts = capture(model, TEXTS, layer=1, head=2)
    np.testing.assert_allclose(parts.attention(), whole.attention(), atol=SINGLE)


def test_special_tokens_are_marked_and_texts_are_kept(tmp_path):
    view = capture(load(write(tmp_path, "bert")), ["b a ?"], layer=0, head=0, at=1)
    assert view.texts == (("[CLS]", "b", "a", "[UNK]", "[SEP]"),)
    np.testing.assert_array_equal(view.special, [[True, False, False, True, True]])
    np.testing.assert_array_equal(view.ids, [[2, 5, 4, 1, 3]])


def test_draws_repeat_and_depend_on_the_seed(tmp_path):
    model = load(write(tmp_path, "bert"))
    texts = [" ".join("abcdefghij"[i:]) for i in range(8)] * 4

    def drawn(**options):
        view = capture(model, texts, layer=0, head=0, **options)
        return view.texts, list(view.positions)

    assert drawn(queries=5, seed=1) == drawn(queries=5, seed=1)
    assert drawn(queries=5, seed=1) != drawn(queries=5, seed=2)
    words, places = drawn(queries=5, seed=1)
    assert len(words) == len(places) == 5
    assert all(0 <= place < len(text) for text, place in zip(words, places, strict=True))
    assert len(set(drawn()[1])) > 3  # not always the same place


def test_positions_can_be_given(tmp_path):
    model = load(write(tmp_path, "bert"))
    assert list(capture(model, TEXTS, layer=0, head=0, at=0).positions) == [0] * 4
    assert list(capture(model, TEXTS, layer=0, head=0, at=-1).positions) == [4, 7, 2, 5]
    assert list(capture(model, TEXTS, layer=0, head=0, at=[1, 2, 0, 3]).positions) == [1, 2, 0, 3]


def test_length_cuts_texts_and_keeps_their_marks(tmp_path):
    view = capture(load(write(tmp_path, "bert")), TEXTS, layer=0, head=0, length=4)
    assert view.keys.shape[1] == 4
    assert view.texts[1] == ("[CLS]", "d", "e", "[SEP]")
    again = capture(load(write(tmp_path, "bert")), TEXTS, layer=0, head=0)
    assert again.keys.shape[1] == 8


LONG = " ".join("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "there is no text"),
        ("abc", {}, "list of strings"),
        ([1], {}, "list of strings"),
        (["a", " "], {}, "text 1 has no tokens"),
        (["a b", "a \ud800"], {}, "text 1 has half of a letter"),
        (["a", LONG], {}, r"text 1 has 28 tokens and the model reads 16: give length=16"),
        (TEXTS, {"length": 17}, "length is 17: give 3 to 16"),
        (TEXTS, {"length": 2}, "length is 2: give 3 to 16"),
        (TEXTS, {"queries": 5}, "there are 4 texts, one query each: give 1 to 4"),
        (TEXTS, {"queries": 0}, "queries is 0"),
        (TEXTS, {"queries": 2.5}, r"queries is 2.5; it must be a whole number"),
        (TEXTS, {"seed": -1}, "seed is -1"),
        (TEXTS, {"at": [1, 2]}, "or 4 of them, one for each text"),
        (TEXTS, {"at": 0.5}, "at must be a whole number"),
        (TEXTS, {"at": 5}, "at is 5 for text 0, which has 5 tokens"),
    ],
)
def test_texts_and_draws_that_do_not_fit_are_refused(texts, options, message, tmp_path):
    with pytest.raises(attsvm.BadTokens, match=message):
        capture(load(write(tmp_path, "bert")), texts, layer=0, head=0, **options)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"layers": [2]}, "layer is 2; layers run from 0 to 1"),
        ({"layers": [-1]}, "layer is -1"),
        ({"heads": [0, 2]}, "attention head is 2; attention heads run from 0 to 1"),
        ({"heads": []}, "no attention head is asked for"),
        ({"layers": [True]}, "layer is True"),
    ],
)
def test_layers_and_heads_out_of_range_are_refused(where, message, tmp_path):
    with pytest.raises(attsvm.Unsupported, match=message):
        capture_layers(load(write(tmp_path, "bert")), TEXTS, **where)


def test_what_does_not_fit_in_memory_is_refused_with_what_would(tmp_path, monkeypatch):
    model = load(write(tmp_path, "bert"))
    for where in ("attsvm._utils.memory.available", "attsvm.inspection.capturing.available"):
        monkeypatch.setattr(where, lambda: 4.2e6)
    texts = ["a b c d e f g h i j k l m n"] * 3000
    with pytest.raises(attsvm.TooLarge, match="capturing 3000 texts of 16 tokens") as refused:
        capture(model, texts, layer=0, head=0)
    fit = int(str(refused.value).rpartition("queries=")[2])
    assert 0 < fit < 3000
    assert len(capture(model, texts, layer=0, head=0, queries=fit).queries) == fit
    with pytest.raises(attsvm.TooLarge):
        capture(model, texts, layer=0, head=0, queries=fit + 1)


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    model = load(write(tmp_path, "bert"))
    short = model.transformer.embedding.words[:6]
    object.__setattr__(model.transformer.embedding, "words", short)
    with pytest.raises(attsvm.BadTokens, match="token 12 is beyond the 6 words"):
        capture(model, ["a i"], layer=0, head=0)


@pytest.mark.parametrize(
    ("kind", "part", "where"),
    [
        ("gpt2", lambda body: body.layers[0].out.weight, "layer 0"),
        ("bert", lambda body: body.embedding.words, "the embedding"),
    ],
)
def test_weights_that_overflow_are_named(kind, part, where, tmp_path):
    """Finite weights whose products are not: one sentence, no warning."""
    model = load(write(tmp_path, kind))
    loud = part(model.transformer)
    loud *= np.float32(1e38)
    with pytest.raises(attsvm.BadTokens, match=f"{where} gives numbers that are not finite"):
        capture(model, TEXTS, layer=1, head=0)


def test_memory_stays_below_what_is_said(tmp_path, monkeypatch):
    """The peak of arrays in a pass over all layers, against the need that is checked beforehand."""
    model = load(write(tmp_path, "llama"))
    texts = [" ".join("abcdefghijklmnopqrst")] * 1500
    said = []
    monkeypatch.setattr(module, "require", lambda need, what, **other: said.append(need))
    views = capture_layers(model, texts)
    gc.collect()
    tracemalloc.start()
    for view in views:
        del view
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.3 * said[0] < peak < said[0]


@pytest.mark.parametrize("family", ["llama", "qwen2", "bert"])
def test_the_matrix_of_an_offset_gives_its_logits(family, tmp_path):
    view = capture(load(write(tmp_path, family)), TEXTS, layer=1, head=1, at=-1)
    logits = view.logits()
    for offset in range(4):
        W = view.W_at(offset)
        for i, place in enumerate(view.positions):
            if offset <= place:
                mine = view.keys[i, place - offset] @ W @ view.queries[i]
                assert mine == pytest.approx(logits[i, place - offset], rel=EXACTLY)
    if family == "bert":
        np.testing.assert_array_equal(W, view.W)
    else:
        assert np.abs(view.W_at(0) - view.W_at(1)).max() > 0.1
        with pytest.raises(attsvm.BadTokens, match="a key 9 places before it"):
            view.W_at(9)

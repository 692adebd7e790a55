"""Attention as Views have it against the models' own; draws, masks, and what is refused."""

import json

import numpy as np
import pytest

import attsvm
from attsvm import inspection
from attsvm.inspection import capture, capturing, load, pattern
from attsvm.inspection.capturing import Run
from attsvm.inspection.texts import read_inputs
from tests.tolerances import SINGLE

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from tests.inspection import tiny  # noqa: E402

LETTERS = ["a b c d e", "f g", "h i j"]


def every_query(run):
    """Row and position of every token."""
    lengths = run.inputs.lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)
    return rows, np.concatenate([np.arange(length) for length in lengths])


def apart(run, reference):
    """The largest difference of any attention of any head from that of the model itself."""
    rows, positions = every_query(run)
    worst = 0.0
    for states in run.states(range(len(run.layers)), rows, positions):
        for view in states.views(range(states.layer.heads)):
            own = view.attention()
            theirs = reference[view.layer][rows, view.head, positions, : own.shape[1]].numpy()
            worst = max(worst, float(np.abs(own - theirs).max()))
    return worst


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_every_type_of_model_attends_as_it_does_by_eager(kind):
    model, rows = tiny.build(kind), tiny.inputs(kind, 5)
    given = tiny.arguments(kind, rows)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        reference = model(**given, output_attentions=True).attentions
    run = Run(load(model), rows)
    assert apart(run, reference) < SINGLE
    space = "head" if kind in tiny.HEAD_SPACE else "features"
    about = run.known.about
    assert (about["space"], about["causal"]) == (space, kind in tiny.CAUSAL)
    assert about["layers"] == len(reference)


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_the_output_of_a_model_is_unchanged_to_the_bit_and_so_is_the_model(kind):
    model, given = tiny.build(kind), tiny.arguments(kind, tiny.inputs(kind))
    model.train()
    before = (
        model.config._attn_implementation,
        sum(len(x._forward_pre_hooks) for x in model.modules()),
    )
    model.eval()
    with torch.no_grad():
        plain = model(**given)[0]
    model.train()
    assert len(capturing._calls(load(model), given)) == len(
        Run(load(model), tiny.inputs(kind)).layers
    )
    assert model.training and model.config._attn_implementation == before[0]
    model.eval().set_attn_implementation(capturing._registered())
    with torch.no_grad():
        heard = model(**given)[0]
    model.train().set_attn_implementation(before[0])
    assert torch.equal(plain, heard)
    assert model.training
    hooks = sum(len(x._forward_pre_hooks) for x in model.modules())
    assert (model.config._attn_implementation, hooks) == before


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_the_output_of_a_layer_is_the_sum_of_its_heads(kind):
    """W_O of each head times its output, and the shift, is what the linear map gives."""
    run = Run(load(tiny.build(kind)), tiny.inputs(kind))
    for states in run.states(range(len(run.layers)), *run.draw(None, 0, -1)):
        total = states.layer.mixer[1]
        for view in states.views(range(states.layer.heads)):
            out = np.einsum("nt,nth->nh", view.attention(), view.values)
            total = total + out @ view.layer_output.factor.T
        np.testing.assert_allclose(total, view.layer_output.output, atol=1e-4)


def test_minilm_attends_as_it_does_by_eager():
    known = minilm()
    texts = inspection.sample_texts()[:12]
    given = known.tokenizer(texts, padding=True, return_tensors="pt")
    known.model.set_attn_implementation("eager")
    with torch.no_grad():
        reference = known.model(**given, output_attentions=True).attentions
    known.model.set_attn_implementation("sdpa")
    assert apart(Run(known, texts), reference) < SINGLE


def minilm():
    try:
        return load("minilm")
    except attsvm.Unsupported as missing:
        pytest.skip(str(missing))


def test_a_model_in_memory_a_folder_and_half_precision_are_one(tmp_path):
    folder = tiny.write(tmp_path / "mine")
    views = [
        capture(model, LETTERS, head="L1H2", tokenizer=tiny.tokenizer(), at=1)
        for model in (tiny.build("bert"), folder, str(folder))
    ]
    for view in views[1:]:
        np.testing.assert_array_equal(view.attention(), views[0].attention())
    assert views[0].texts[1] == ("[CLS]", "f", "g", "[SEP]")
    assert views[0].special.sum(axis=1).tolist() == [2, 2, 2]
    half = capture(tiny.build("bert").to(torch.bfloat16), tiny.inputs("bert"), head="L0H0", at=1)
    full = capture(tiny.build("bert"), tiny.inputs("bert"), head="L0H0", at=1)
    np.testing.assert_allclose(half.attention(), full.attention(), atol=0.05)


def test_batches_and_layers_run_anew_change_nothing(monkeypatch):
    model, rows = tiny.build("llama"), tiny.inputs("llama", 7)

    def found():
        run = Run(load(model), rows)
        states = run.states([0, 1], *run.draw(None, 0, -1))
        return [view.attention() for one in states for view in one.views(range(4))]

    whole = found()
    monkeypatch.setattr("attsvm.inspection.texts.TOKENS", 12)
    monkeypatch.setattr(capturing, "_SHARE", 1e-12)  # a layer at a time
    for one, other in zip(whole, found(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_windows_and_padding_hide_keys():
    view = capture(tiny.build("mistral"), tiny.inputs("mistral", 6), head="L0H1", at=-1)
    seen = view.valid.sum(axis=1)
    assert (seen <= 4).all()  # the window
    assert all(view.valid[i, p] for i, p in enumerate(view.positions))
    with_padding = capture(tiny.build("bert"), tiny.inputs("bert", 6), head="L0H1", at=0)
    lengths = [len(text) for text in with_padding.texts]
    assert with_padding.valid.sum(axis=1).tolist() == lengths


def test_draws_repeat_and_depend_on_the_seed():
    model, rows = tiny.build("gpt2"), tiny.inputs("gpt2", 20)
    draws = [capture(model, rows, head="L0H0", queries=9, seed=k) for k in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0].ids, draws[1].ids)
    assert draws[0].ids.shape[0] == 9
    assert not np.array_equal(draws[0].positions, draws[2].positions)
    assert (draws[0].positions > 0).all()  # a first token sees itself alone


def test_a_pattern_has_the_attention_of_every_token():
    model = tiny.build("qwen3")
    row = tiny.inputs("qwen3", 1)[0]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        reference = model(input_ids=row[None], output_attentions=True).attentions
    found = pattern(model, row, head="1.3")
    assert (found.view.name, found.view.space) == ("L1H3", "head")
    assert found.tokens == tuple(map(str, row.tolist()))
    np.testing.assert_allclose(found.attention, reference[1][0, 3].numpy(), atol=SINGLE)
    assert (found.selected == found.attention.argmax(axis=1)).all()
    table = found.to_frame()
    assert np.isinf(table["gap"][0]) and (table["key_radius"] >= 0).all()
    assert table["attention"].to_numpy() == pytest.approx(found.attention.max(axis=1))
    assert len(found.plot().axes) == 2
    image = pattern(tiny.build("vit"), tiny.inputs("vit", 1)[0], head="L0H0")
    assert image.attention.shape == (17, 17) and image.tokens[:2] == ("[CLS]", "patch 0")
    sentence = pattern(tiny.build("bert"), "a b", head="L0H0", tokenizer=tiny.tokenizer())
    assert sentence.tokens == ("[CLS]", "a", "b", "[SEP]")


def test_ids_with_a_tokenizer_are_named_and_marked():
    rows = [[2, 4, 5, 3], [2, 6, 3]]
    found = read_inputs(load(tiny.build("bert"), tiny.tokenizer()), rows, length=None)
    assert found.tokens == (("[CLS]", "a", "b", "[SEP]"), ("[CLS]", "c", "[SEP]"))
    assert found.special.tolist() == [[True, False, False, True], [True, False, True, False]]


REFUSED = {
    "bloom": ({"hidden_size": 32, "n_layer": 1, "n_head": 4}, "ALiBi"),
    "gemma2": ({"head_dim": 8, "num_key_value_heads": 2}, "soft-capping of its logits"),
    "xlnet": ({"d_model": 32, "n_layer": 1, "n_head": 4, "d_inner": 8}, "no attention by sdpa"),
    "mamba": ({}, "no attention by sdpa"),
    "t5": ({"d_model": 32, "d_kv": 8, "num_layers": 1}, "an encoder and a decoder"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_models_whose_attention_cannot_be_read_are_refused_by_name(kind):
    changed, message = REFUSED[kind]
    given = {"vocab_size": 30, **changed}
    given |= tiny.CONFIGS["bert"] if kind == "gemma2" else {}
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **given))
    with pytest.raises(attsvm.Unsupported, match=f"{type(model).__name__} has {message}|{message}"):
        attsvm.inspect(model, tiny.inputs("bert"))


@pytest.mark.parametrize("name", ["softcap", "s_aux", "position_bias"])
def test_what_changes_logits_is_refused_by_name(name):
    x = torch.randn(1, 2, 3, 4)
    with pytest.raises(attsvm.Unsupported, match="it cannot be inspected"):
        capturing._attend(torch.nn.Linear(1, 1), x, x, x, None, **{name: x})


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ("L9H0", "no attention head L9H0: layers run from L0 to L1, heads from H0 to H3"),
        ("L1H4", "heads from H0 to H3"),
        ("third", "names such as L3H5"),
        ("", "names such as L3H5"),
        ([3], "names such as L3H5"),
        (3, "heads is 3: give names"),
    ],
)
def test_heads_that_do_not_exist_are_refused_with_the_range(heads, message):
    with pytest.raises(attsvm.Unsupported, match=message):
        attsvm.inspect(tiny.build("bert"), tiny.inputs("bert"), heads=heads)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "there is no text"),
        (["a", ""], {}, "text 1 has no tokens"),
        (["a \ud800"], {}, "half of a letter"),
        (["a " * 70], {}, "text 0 has 72 tokens and the model reads 64: give length=64"),
        (["a b"], {"length": 65}, "give 3 to 64"),
        (["a b"], {"length": 2}, "give 3 to 64"),
        (["a b"], {"queries": 2}, "queries is 2 and there are 1 texts"),
        (["a b"], {"seed": -1}, "seed is -1"),
        (["a b"], {"at": 9}, "at is 9 for text 0, which has 4 tokens"),
        (["a b"], {"at": 0.5}, "at is 0.5: it must be a whole number"),
        ([[1, 40]], {}, "token 40 is not among the 30 words of the model"),
        ([[1, -1]], {}, "token -1 is not among the 30 words"),
        ([[[1]]], {}, "text 0 is neither a string nor a row"),
    ],
)
def test_texts_and_draws_that_do_not_fit_are_refused(texts, options, message):
    with pytest.raises(attsvm.BadTokens, match=message):
        capture(tiny.build("bert"), texts, head="L0H0", tokenizer=tiny.tokenizer(), **options)


def test_what_a_model_does_not_read_is_refused():
    with pytest.raises(attsvm.BadTokens, match="texts need a tokenizer"):
        attsvm.inspect(tiny.build("bert"), ["a b"])
    with pytest.raises(attsvm.BadTokens, match="this model reads input_ids"):
        attsvm.inspect(tiny.build("bert"), torch.randn(2, 3, 16, 16))
    with pytest.raises(attsvm.BadTokens, match="this model reads pixel_values"):
        attsvm.inspect(tiny.build("vit"), [[1, 2]])
    with pytest.raises(attsvm.Unsupported, match="of type Linear: give a model of transformers"):
        attsvm.inspect(torch.nn.Linear(2, 2), ["a"])
    with pytest.raises(attsvm.Unsupported, match="tokenizer is of type int"):
        attsvm.inspect(tiny.build("bert"), ["a"], tokenizer=3)
    with pytest.raises(attsvm.Unsupported, match="BertModel is on the device meta"):
        attsvm.inspect(tiny.build("bert").to("meta"), [[1, 2]])
    broken = tiny.build("bert")
    with torch.no_grad():
        broken.encoder.layer[0].attention.self.key.weight.fill_(np.inf)
    with pytest.raises(attsvm.BadTokens, match="layer L0 has states that are not finite"):
        capture(broken, [[1, 2, 3]], head="L0H0")
    with pytest.raises(attsvm.Unsupported, match="name one, such as L0H0"):
        capture(tiny.build("bert"), [[1, 2, 3]], head="L0")


def test_folders_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(attsvm.Unsupported, match="neither a folder nor a known model: minilm"):
        load("some-hub/some-model")
    with pytest.raises(attsvm.BadTokens, match=r"has no config\.json"):
        load(tmp_path)
    folder = tiny.write(tmp_path / "mine")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(attsvm.Unsupported, match="keeps its weights in a pickle"):
        load(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(attsvm.BadTokens, match="cannot be read by transformers"):
        load(folder)
    entries = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(entries | {"model_type": "mine"}))
    with pytest.raises(attsvm.BadTokens, match="cannot be read by transformers"):
        load(folder)


def test_what_does_not_fit_in_memory_is_refused(monkeypatch):
    run = Run(load(tiny.build("bert")), tiny.inputs("bert", 9))
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 1e4)
    with pytest.raises(attsvm.TooLarge, match="capturing 9 texts"):
        list(run.states([0], *run.draw(None, 0, 0)))

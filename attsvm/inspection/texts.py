"""Inputs of a model: texts by its tokenizer, tensors of token ids, images; one row each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Ints
from attsvm._utils.files import check_in
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.models import TrainedModel, libraries


def read_passages(file: str | Path) -> list[str]:
    """The passages of a text file in UTF-8.

    Blank lines part them; a file without blank lines has a passage on each line.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "mine.txt"
    >>> _ = file.write_text("One passage\\nof two lines.\\n\\nAnother one.")
    >>> read_passages(file)
    ['One passage of two lines.', 'Another one.']
    """
    file = Path(file)
    check_in(file, "a text file in UTF-8")
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadTokens(f"{file} is not UTF-8 ({error.reason}): save it anew") from error
    found = passages_of(text)
    if not found or "\0" in text:
        raise BadTokens(f"{file} holds no text: write passages, with blank lines between them")
    return found


def passages_of(text: str) -> list[str]:
    """The passages of a text: between blank lines, or its lines where no line is blank.

    >>> passages_of("One and\\nmore.\\n\\nTwo.\\n")
    ['One and more.', 'Two.']
    >>> passages_of("One.\\nTwo.\\n")
    ['One.', 'Two.']
    """
    text = text.strip().replace("\r\n", "\n").replace("\r", "\n")
    blank = re.compile(r"\n[^\S\n]*\n")
    parts = blank.split(text) if blank.search(text) else text.split("\n")
    joined = (" ".join(part.split()) for part in parts)
    return [part for part in joined if part]


def sample_texts(kind: str = "prose") -> list[str]:
    """The sample that is shipped: short passages of prose, or chemical reactions in SMILES.

    The prose was written for this purpose. The reactions were put together from common building
    blocks; they are plausible, and taken from no database.

    >>> len(sample_texts()) >= 600, len(sample_texts("reactions"))
    (True, 1000)
    """
    if kind not in ("prose", "reactions"):
        raise Unsupported(f"no sample is called {kind!r}; there are prose and reactions")
    return passages_of(files("attsvm.inspection").joinpath(f"{kind}.txt").read_text("utf-8"))


# Tokens that go through the model at once.
TOKENS = 2048


@dataclass(frozen=True, eq=False)
class Inputs:
    """n rows for a model.

    ids (n, T): numbers of the tokens, 0 beyond the end; valid, special (n, T); tokens: as a reader
    knows them. images: what the model reads in place of ids.
    """

    ids: Ints
    valid: Bools
    special: Bools
    tokens: tuple[tuple[str, ...], ...]
    images: Any = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> Ints:
        """How many tokens each row has (n,)."""
        lengths: Ints = self.valid.sum(axis=1)
        return lengths

    def subset(self, rows: Any) -> Inputs:
        """These rows."""
        names = ("ids", "valid", "special")
        parts: dict[str, Any] = {name: getattr(self, name)[rows] for name in names}
        images = None if self.images is None else self.images[[int(i) for i in rows]]
        tokens = tuple(self.tokens[i] for i in rows)
        return replace(self, tokens=tokens, images=images, **parts)

    def batches(self) -> list[tuple[Ints, int]]:
        """Rows of about the same length, and that length; at most TOKENS tokens at once."""
        lengths = self.lengths
        order = np.argsort(-lengths, kind="stable")
        found = []
        while len(order):
            t = int(lengths[order[0]])
            size = max(1, TOKENS // t)
            found.append((order[:size], t))
            order = order[size:]
        return found

    def arguments(self, rows: Ints, t: int) -> dict[str, Any]:
        """What the model is called with for these rows, cut to t tokens."""
        torch, _ = libraries()
        if self.images is not None:
            return {"pixel_values": self.images[torch.as_tensor(rows)]}
        return {
            "input_ids": torch.as_tensor(self.ids[rows, :t]),
            "attention_mask": torch.as_tensor(self.valid[rows, :t].astype(np.int64)),
        }


def first_of_each(ids: Any, seen: Bools) -> list[int]:
    """The numbers of the rows whose seen entries no earlier row has as its own."""
    first: dict[bytes, int] = {}
    for i, (row, mask) in enumerate(zip(ids, seen, strict=True)):
        first.setdefault(row[mask].tobytes(), i)
    return list(first.values())


def read_inputs(known: TrainedModel, texts: Any, *, length: int | None) -> Inputs:
    """Texts, a file of them, or tensors, as rows for the model; the shipped sample without them.

    texts: a list of strings, a file as `read_passages` takes it, token ids (n, T) or a list of rows
    of them, or images as the model takes them. length: tokens that a text is cut to.
    """
    torch, _ = libraries()
    if texts is None and known.tokenizer is not None:
        texts = sample_texts(known.sample)
    if isinstance(texts, Path | str):
        texts = read_passages(texts)
    if texts is None or not len(texts):
        raise BadTokens("there is no text: give at least one")
    if all(isinstance(text, str) for text in texts):
        return _texts(known, texts, length)
    if isinstance(texts, torch.Tensor) and texts.is_floating_point():
        return _images(known, texts)
    return _ids(known, texts, length)


def _texts(known: TrainedModel, texts: Sequence[str], length: int | None) -> Inputs:
    tokenizer, longest = known.tokenizer, known.longest
    if tokenizer is None:
        raise BadTokens("texts need a tokenizer: give tokenizer=, or tensors of token ids")
    for i, text in enumerate(texts):
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise BadTokens(f"text {i} has half of a letter, which no file in UTF-8 holds")
    marks = tokenizer.num_special_tokens_to_add()
    most = longest or 1 << 30
    if length is not None and not (isinstance(length, int) and marks < length <= most):
        raise BadTokens(f"length is {length}: give {marks + 1} to {most}, the positions it has")
    found = tokenizer(
        list(texts),
        truncation=length is not None,
        max_length=length,
        return_special_tokens_mask=True,
        verbose=False,
    )
    rows, marks_of = found["input_ids"], found["special_tokens_mask"]
    for i, (ids, mask) in enumerate(zip(rows, marks_of, strict=True)):
        if len(ids) == sum(mask):
            raise BadTokens(f"text {i} has no tokens ({texts[i][:40]!r}): leave it out")
    return _filled(known, rows, marks_of)


def _ids(known: TrainedModel, texts: Any, length: int | None) -> Inputs:
    rows, name = [], known.trunk.main_input_name
    if name != "input_ids":
        raise BadTokens(f"this model reads {name}: give them as one tensor of floats")
    for i, row in enumerate(texts):
        array = np.asarray(row)
        if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
            raise BadTokens(
                f"text {i} is neither a string nor a row of token ids; images are one tensor of "
                "floats"
            )
        rows.append([int(k) for k in array[:length]])
    return _filled(known, rows, [[0] * len(row) for row in rows])


def _images(known: TrainedModel, images: Any) -> Inputs:
    """The images as rows; their tokens are counted once the model has run."""
    name = known.trunk.main_input_name
    if name != "pixel_values":
        raise BadTokens(f"texts is a tensor of floats: this model reads {name}")
    empty = np.zeros((len(images), 1), dtype=np.int64)
    return Inputs(empty, empty == 0, empty != 0, (("patch",),) * len(images), images)


def patches(known: TrainedModel, inputs: Inputs, count: int) -> Inputs:
    """The images with so many tokens each: first the [CLS] token, if the model has one."""
    n = len(inputs)
    first = any(name.endswith("cls_token") for name, _ in known.model.named_parameters())
    words = (*(["[CLS]"] if first else []), *(f"patch {k}" for k in range(count - first)))
    special = np.zeros((n, count), dtype=bool)
    special[:, 0] = first
    ids = np.tile(np.arange(count), (n, 1))
    return replace(inputs, ids=ids, valid=ids >= 0, special=special, tokens=(words,) * n)


def _filled(known: TrainedModel, rows: Any, marks: Any) -> Inputs:
    """Rows of token ids of unequal length in arrays; marks: 1 for a special token.

    Raises BadTokens where the model has no such token or position.
    """
    own, longest, most = known.tokenizer, known.longest, known.words
    for i, row in enumerate(rows):
        if longest is not None and len(row) > longest:
            raise BadTokens(
                f"text {i} has {len(row)} tokens and the model reads {longest}: give "
                f"length={longest} to cut it, or shorter texts"
            )
        wrong = [k for k in row if not 0 <= k < most]
        if wrong:
            raise BadTokens(
                f"token {wrong[0]} is not among the {most:,} words of the model: its tokenizer is "
                "another's"
            )
    names = set() if own is None else set(own.all_special_ids)
    shape = len(rows), max(map(len, rows))
    ids, special = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    valid = np.zeros(shape, dtype=bool)
    for i, (row, mark) in enumerate(zip(rows, marks, strict=True)):
        ids[i, : len(row)], valid[i, : len(row)] = row, True
        special[i, : len(row)] = [bool(m) or k in names for m, k in zip(mark, row, strict=True)]
    write = str if own is None else lambda k: own.decode([k])
    words = [tuple(write(k) for k in row) for row in rows]
    return Inputs(ids, valid, special, tuple(words))

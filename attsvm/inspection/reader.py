"""Reader: texts as the numbers of a model's tokens, by the tokenizer that comes with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Ints
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.checkpoints import NEEDED

# What a SMILES string is cut at: brackets, atoms, bonds, rings, branches, arrows.
SMILES = (
    r"\%\([0-9]{3}\)|\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?"
    r"|>>?|\*|\$|\%[0-9]{2}|[0-9]"
)

_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, eq=False)
class EncodedTexts:
    """n texts as numbers: ids (n, T), 0 beyond the end; valid, special (n, T); the tokens."""

    ids: Ints
    valid: Bools
    special: Bools
    tokens: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Reader:
    """A tokenizer, and the numbers of its special tokens."""

    tokenizer: Any
    special: frozenset[int]

    def encode(self, texts: Sequence[str], *, length: int | None, longest: int) -> EncodedTexts:
        """The texts, each cut to `length` tokens where one is given.

        longest: how many tokens the model reads.
        """
        held = self._tokenize(texts, length, longest)
        for i, one in enumerate(held):
            if len(one.ids) - sum(one.special_tokens_mask) < 1:
                raise BadTokens(f"text {i} has no tokens ({texts[i][:40]!r}): leave it out")
            if len(one.ids) > longest:
                raise BadTokens(
                    f"text {i} has {len(one.ids)} tokens and the model reads {longest}: give "
                    f"length={longest} to cut it, or shorter passages"
                )
        T = max(len(one.ids) for one in held)
        ids = np.zeros((len(held), T), dtype=np.int64)
        valid = np.zeros((len(held), T), dtype=bool)
        special = np.zeros((len(held), T), dtype=bool)
        for i, one in enumerate(held):
            ids[i, : len(one.ids)] = one.ids
            valid[i, : len(one.ids)] = True
            special[i, : len(one.ids)] = [
                bool(mark) or number in self.special
                for mark, number in zip(one.special_tokens_mask, one.ids, strict=True)
            ]
        return EncodedTexts(ids, valid, special, tuple(self._display(one) for one in held))

    def first_of_each(self, texts: Sequence[str], *, length: int | None, longest: int) -> list[int]:
        """Which texts to keep so that no two have the same tokens, once cut to `length`."""
        first: dict[tuple[int, ...], int] = {}
        for i, one in enumerate(self._tokenize(texts, length, longest)):
            first.setdefault(tuple(one.ids), i)
        return list(first.values())

    def _tokenize(self, texts: Sequence[str], length: int | None, longest: int) -> list[Any]:
        marks = self.tokenizer.num_special_tokens_to_add(False)
        if length is not None and not marks < length <= longest:
            raise BadTokens(
                f"length is {length}: give {marks + 1} to {longest}, the positions of the model"
            )
        if length is None:
            self.tokenizer.no_truncation()
        else:
            self.tokenizer.enable_truncation(length)
        held: list[Any] = self.tokenizer.encode_batch(list(texts))
        return held

    def _display(self, one: Any) -> tuple[str, ...]:
        """The tokens as a reader knows them: ▁ and bytes written as letters are put back."""
        kind = type(self.tokenizer.decoder).__name__
        if kind != "ByteLevel":
            return tuple(token.replace("▁", " ") for token in one.tokens)
        return tuple(self.tokenizer.decode([k], skip_special_tokens=False) for k in one.ids)


def reader_of(folder: Path, *, smiles: bool = False) -> Reader:
    """The Reader of the model in a folder. smiles: its texts are reactions, by vocab.txt."""
    tokenizers = _tokenizers()
    if smiles:
        return _smiles(folder / "vocab.txt")
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise BadTokens(
            f'{folder} has no tokenizer.json; transformers writes one: python -c "import sys, '
            "transformers as t; t.AutoTokenizer.from_pretrained(sys.argv[1])"
            f".save_pretrained(sys.argv[1])\" '{folder}'"
        )
    try:
        tokenizer = tokenizers.Tokenizer.from_str(file.read_text("utf-8"))
    except Exception as error:  # the package raises bare Exception
        raise BadTokens(f"{file} cannot be read as a tokenizer ({error})") from error
    tokenizer.no_padding()
    added = tokenizer.get_added_tokens_decoder()
    return Reader(tokenizer, frozenset(k for k, token in added.items() if token.special))


def _tokenizers() -> Any:
    try:
        return import_module("tokenizers")
    except ModuleNotFoundError as error:
        raise Unsupported(NEEDED) from error


def _smiles(file: Path) -> Reader:
    """The Reader of SMILES strings: a token for each match of the pattern that vocab.txt has."""
    tokenizers = _tokenizers()
    if not file.is_file():
        raise BadTokens(f"{file.parent} has no vocab.txt")
    words = file.read_text("utf-8").splitlines()
    lacking = [mark for mark in _MARKS if mark not in words]
    if lacking:
        raise BadTokens(f"{file} has no line {lacking[0]}")
    matches = tokenizers.Regex(SMILES)
    return _by_words(words, tokenizers.pre_tokenizers.Split(matches, "removed", invert=True))


def words_reader(words: Sequence[str]) -> Reader:
    """A Reader that knows these words, parted by blanks, between [CLS] and [SEP]."""
    return _by_words([*_MARKS, *words], _tokenizers().pre_tokenizers.WhitespaceSplit())


def _by_words(words: Sequence[str], cut: Any) -> Reader:
    """The Reader of a list of words, special ones among them. cut: how texts are parted."""
    tokenizers = _tokenizers()
    numbers = {word: k for k, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = cut
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(mark, numbers[mark]) for mark in ("[CLS]", "[SEP]")],
    )
    return Reader(tokenizer, frozenset(numbers[mark] for mark in _MARKS))

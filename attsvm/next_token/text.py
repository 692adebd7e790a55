"""Sentences from a text file: one a line, its last token the label, or a running text (prose)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from attsvm._utils.expected import file_path, flag, whole
from attsvm._utils.files import beside, check_in, check_out
from attsvm._utils.memory import require
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.sentences import INFERRED, Sentences

# (number of the line, its tokens), and (number of the line, its text).
Line = tuple[int, list[Any]]
Numbered = tuple[int, str]

_WHOLE = re.compile(r"-?[0-9]+")
# Digits of a token number; more cannot be the place of a token in any vocabulary.
_DIGITS = 18
# The fewest tokens of a sentence of prose: two words and the label.
_LEAST = 3
# Words whose full stop ends no sentence, in lower case.
_SHORT = frozenset(
    ("e.g", "i.e", "etc", "cf", "vs", "al", "mr", "mrs", "ms", "dr", "prof", "pp", "fig", "vol")
)
# A word that may end a sentence: its body, the mark, and what closes after it.
_END = re.compile(r"(?P<body>.*?)(?P<mark>[.!?…]+)(?P<close>[\"'”’»)\]]*)", re.S)


def read_sentences(
    file: Path | str,
    *,
    collocations: Path | str | None = None,
    vocabulary: int | None = None,
    limit: int | None = None,
    prose: bool = False,
    lower: bool = False,
    strip: bool = False,
    shortest: int | None = None,
) -> Sentences:
    """The sentences and collocations of a text file.

    A line w_1 … w_L y of the file is a sentence with the label y, a line of two tokens a
    collocation; blank lines count as lines and hold nothing. Tokens are token numbers when all of
    the file are whole numbers, and words otherwise.

    Parameters
    ----------
    file : path
        UTF-8 text.
    collocations : path, "bigrams" or "copy", optional
        Who follows whom: a file of lines x n(x); the most frequent pairs; or n(x) = x. Those of the
        file itself are its two-token lines. Default in prose: "bigrams".
    vocabulary : int, optional
        Of numbers, the size N; of words, how many of the most frequent are kept (the first seen
        among equals). The others are left out of the lines as if they were not written; lines that
        get shorter than a sentence are left out whole (a sentence does not become a collocation).
    limit : int, optional
        The number of lines, or sentences of prose, that are kept.
    prose : bool
        Read a running text by its sentences, of at least three tokens, instead of its lines.
    lower : bool
        Put words in lower case.
    strip : bool
        Take punctuation and signs off both ends of each word; whole numbers stay as they are.
    shortest : int, optional
        Skip lines or sentences of fewer tokens; without it a line of one token is an error.

    Returns
    -------
    Sentences
        Their `left_out` says how many lines were too short ("skipped"), and what a smaller
        vocabulary left out: distinct "words", "tokens", "lines" and "collocations".

    Raises
    ------
    BadTokens
        If the file is not text, holds no sentence, or gives a token two followers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "text.txt"
    >>> _ = file.write_text("The cat sat on the mat. The dog sat,\\ntoo. Why?")
    >>> read_sentences(file, prose=True, lower=True, strip=True)
    Sentences(2 distinct of 2, 7 tokens, 5 collocations)
    """
    for name, number in (("vocabulary", vocabulary), ("limit", limit), ("shortest", shortest)):
        if number is not None:
            whole(number, name, least=1, kind=BadTokens)
    for name, value in (("prose", prose), ("lower", lower), ("strip", strip)):
        flag(value, name)
    source = file_path(file, "file")
    if limit is None and source.is_file():  # a word of six letters takes about 70 bytes in a list
        require(12.0 * source.stat().st_size, source.name)

    def split(texts: Iterable[Numbered]) -> Iterator[Line]:
        """(number, tokens) of the lines that are not blank."""
        for number, text in texts:
            if words := clean_words(text.split(), lower=lower, strip=strip):
                yield number, words

    least = max(shortest or 1, _LEAST if prose else 1)
    texts = _texts(source)
    lines: list[Line] = []
    skipped = 0
    for number, words in split(split_prose(texts, str(source)) if prose else texts):
        if len(words) < least:
            skipped += 1
        elif len(lines) == limit:
            break
        else:
            lines.append((number, words))
    _check_lines(source, lines, skipped, least, prose=prose, strip=strip)
    if prose and collocations is None:
        collocations = "bigrams"
    mode = collocations if isinstance(collocations, str) and collocations in INFERRED else None
    listed = None
    if collocations is not None and mode is None:
        listed = file_path(collocations, "collocations")
    pairs = [] if listed is None else list(_pairs(listed, split(_texts(listed))))
    if _whole_numbers(lines, source):
        if listed is not None and not _whole_numbers(pairs, listed):
            raise BadTokens(
                f"{listed} holds words and {source} token numbers: write both as numbers"
            )
        found = _sentences(lines, pairs, mode, vocabulary)
    elif vocabulary is None:
        found = _sentences(lines, pairs, mode, None)
    else:
        found = _most_frequent(lines, pairs, mode, vocabulary)
    return replace(found, left_out={"skipped": skipped, **found.left_out})


def _check_lines(
    file: Path, lines: list[Line], skipped: int, least: int, *, prose: bool, strip: bool
) -> None:
    """Raises BadTokens where there is no line, or one of a single token."""
    if not lines and skipped:
        raise BadTokens(
            f"{file} has no {'sentence' if prose else 'line'} of {least} or more tokens: {skipped} "
            "are shorter"
        )
    if not lines:
        blank = "no words" if prose or strip else "only blank lines"
        said = f"holds {blank}" if file.stat().st_size else "is empty"
        raise BadTokens(f"{file} {said}: write one sentence a line, its label last")
    for number, line in lines:
        if len(line) < 2:
            raise BadTokens(
                f"line {number} of {file} has one token: a sentence is two or more tokens and a "
                "label, a collocation two tokens; skip such lines with --shortest 2, or read a "
                "running text with --prose"
            )


def _sentences(
    lines: list[Line], pairs: list[Line], mode: str | None, vocabulary: int | None
) -> Sentences:
    return Sentences.of(
        [line for _, line in lines],
        vocabulary=vocabulary,
        collocations=[pair for _, pair in pairs] if mode is None else mode,
        numbers=[number for number, _ in lines],
        first=1,
    )


def _most_frequent(
    lines: list[Line], pairs: list[Line], mode: str | None, vocabulary: int
) -> Sentences:
    """What the most frequent words alone make of the lines."""
    seen = Counter(word for _, line in lines for word in line)
    # The sort is stable and a Counter keeps the order of first appearance.
    kept = set(sorted(seen, key=lambda word: -seen[word])[:vocabulary])
    shorter, lost = [], 0
    for number, line in lines:
        left = [word for word in line if word in kept]
        short = len(left) < min(len(line), 3)
        lost += short
        # Two words left of a sentence count as bigrams, but no line says that they are a pair.
        if not short or (mode == "bigrams" and len(left) == 2):
            shorter.append((number, left))
    if not shorter:
        raise BadTokens(
            f"no line keeps enough of its words with the {vocabulary} most frequent: raise the "
            "vocabulary"
        )
    between = [(number, pair) for number, pair in pairs if kept.issuperset(pair)]
    left_out = {
        "words": len(seen) - len(kept),
        "tokens": sum(times for word, times in seen.items() if word not in kept),
        "lines": lost,
        "collocations": len(pairs) - len(between),
    }
    return replace(_sentences(shorter, between, mode, None), left_out=left_out)


def _texts(file: Path) -> Iterator[Numbered]:
    """(number, text) of the lines of a text file, counted from 1, without its byte-order mark."""
    check_in(file, "a text file, one sentence a line")
    with file.open("rb") as stream:
        lines = (raw for block in stream for raw in block.splitlines())  # CR, LF and both
        for number, raw in enumerate(lines, 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise BadTokens(
                    f"line {number} of {file} is not UTF-8 text (byte {raw[error.start]:#04x}): "
                    "save the file as UTF-8"
                ) from None
            if "\0" in text:
                raise BadTokens(
                    f"line {number} of {file} holds a zero byte: save the file as UTF-8 text"
                )
            yield number, text


def _pairs(file: Path, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines x n(x) of a file of collocations; raises BadTokens for two followers."""
    first: dict[Any, Line] = {}
    for number, pair in lines:
        if len(pair) != 2:
            raise BadTokens(
                f"line {number} of {file} has {len(pair)} tokens: a collocation is a token and the "
                "one that follows it"
            )
        x, y = pair
        before, (_, other) = first.setdefault(x, (number, pair))
        if other != y:
            raise BadTokens(
                f"{file} gives {x!r} two followers, {other!r} in line {before} and {y!r} in line "
                f"{number}: a collocation gives each token one"
            )
        yield number, pair
    if not first:
        raise BadTokens(f"{file} holds no collocation: write a token and its follower on each line")


def _whole_numbers(lines: list[Line], file: Path) -> bool:
    """Whether all tokens are whole numbers; then they are numbers, in place."""
    if not all(_WHOLE.fullmatch(token) for _, line in lines for token in line):
        return False
    for number, line in lines:
        for token in line:
            if len(token) > _DIGITS:
                raise BadTokens(
                    f"token {token[:_DIGITS]}… in line {number} of {file} is out of range: it is "
                    "no number of a token"
                )
        line[:] = map(int, line)
    return True


def clean_words(words: Iterable[str], *, lower: bool, strip: bool) -> list[Any]:
    """The words of one line, cleaned.

    >>> clean_words(["«Well-known»", "--", "(GPL)."], lower=True, strip=True)
    ['well-known', 'gpl']
    """
    found = [strip_word(word) if strip else word for word in words]
    return [word.lower() if lower else word for word in found if word]


def strip_word(word: str) -> str:
    """The word without the punctuation and the signs at its ends; a whole number as it is."""
    if word.isalnum() or _WHOLE.fullmatch(word):
        return word
    inside = [k for k, c in enumerate(word) if unicodedata.category(c)[0] not in "PS"]
    return word[inside[0] : inside[-1] + 1] if inside else ""


def split_prose(lines: Iterable[Numbered], source: str) -> Iterator[Numbered]:
    """(number of its first line, text without its end mark) of each sentence of running text.

    A sentence ends at . ! ? or …, and at a blank line, so that a heading stands alone. A full stop
    ends none after a single letter or a usual abbreviation, and before a word in lower case, unless
    the whole text has no capital letter. Raises BadTokens when no sentence ends by a mark.

    >>> text = [(1, "One stop,"), (2, "e.g. this. And"), (3, "that!")]
    >>> list(split_prose(text, "a text"))
    [(1, 'One stop, e.g. this'), (2, 'And that')]
    """
    read = [(number, text.split()) for number, text in lines]
    capitals = any(word != word.lower() for _, words in read for word in words)
    # Every word with the number of its line, None for a blank line.
    flat = [(number, word) for number, words in read for word in (words or (None,))]
    held: list[str] = []
    start = marks = 0
    found: list[Numbered] = []
    for (number, word), (_, after) in pairwise([*flat, (0, None), (0, None)]):
        start = start if held else number
        ends = word is None
        if word is not None:
            body = _ended(word, after=after, capitals=capitals)
            ends = body is not None
            marks += ends
            held.append(word if body is None else body)
        if ends and held:
            found.append((start, " ".join(held)))
            held = []
    seen = sum(word is not None for _, word in flat)
    if seen and not marks:
        raise BadTokens(
            f"no sentence of {source} ends: there is no . ! ? or … at the end of any of its {seen} "
            "words; add them, or write one sentence a line and leave prose out"
        )
    return iter(found)


def _ended(word: str, *, after: str | None, capitals: bool) -> str | None:
    """The word without its end mark when a sentence ends with it, else None."""
    end = _END.fullmatch(word)
    if end is None:
        return None
    body, mark, close = end.group("body", "mark", "close")
    if set(mark) <= {".", "…"} and after is not None:
        bare = strip_word(body).lower()
        letter = len(bare) == 1 and bare.isalpha() and bare != "i"
        if mark == "." and (letter or bare in _SHORT):
            return None
        opening = next((c for c in after if c.isalnum()), "")
        if capitals and opening.islower():
            return None
    return body + close


def write_lines(file: Path, lines: Iterable[Sequence[Any]], *, force: bool = False) -> None:
    """Write tokens as a text file in one move, a line each: a whole file appears, or none."""
    if file.suffix not in ("", ".txt"):
        raise Unsupported(
            f"{file.name}: sentences are written as text, to a name that ends in .txt"
        )
    if file.is_dir():
        raise BadTokens(f"{file} is a folder; give the name of a text file")
    check_out(file, force=force)
    text = "".join(f"{' '.join(map(str, line))}\n" for line in lines)
    with beside(file) as target:
        target.write_text(text, encoding="utf-8", newline="\n")

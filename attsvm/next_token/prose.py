"""Running text as words and sentences: where a sentence ends, and what is left of a word."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from attsvm._utils.expected import flag, whole
from attsvm.errors import BadTokens

# The least a sentence has: two words and the label.
LEAST = 3
# Words whose full stop ends no sentence, in lower case.
_SHORT = frozenset(
    ("e.g", "i.e", "etc", "cf", "vs", "al", "mr", "mrs", "ms", "dr", "prof", "pp", "fig", "vol")
)
# A word that may end a sentence: its body, the mark, and what closes after it.
_END = re.compile(r"(?P<body>.*?)(?P<mark>[.!?…]+)(?P<close>[\"'”’»)\]]*)", re.S)
# These end a sentence with no white space after them.
_WIDE = re.compile(r"([。！？])")
_NUMBER = re.compile(r"-?[0-9]+")

Numbered = tuple[int, str]


@dataclass(frozen=True)
class Cleaning:
    """How a text is made into lines of tokens.

    prose: read by sentences, not by lines. lower: words in lower case. strip: punctuation and signs
    off both ends of each word, whole numbers as they are. shortest: fewest tokens of a line or
    sentence; a shorter one is skipped, and without it a line of one token is an error. Prose keeps
    sentences of at least three tokens.
    """

    prose: bool = False
    lower: bool = False
    strip: bool = False
    shortest: int | None = None

    def __post_init__(self) -> None:
        for name in ("prose", "lower", "strip"):
            flag(getattr(self, name), name)
        if self.shortest is not None:
            whole(self.shortest, "shortest", least=1, kind=BadTokens)

    @property
    def least(self) -> int:
        """Fewest tokens that are kept; fewer are skipped."""
        asked = 1 if self.shortest is None else self.shortest
        return max(asked, LEAST) if self.prose else asked

    def words(self, tokens: Iterable[Any]) -> list[Any]:
        """The tokens of one line, cleaned; what is no word is left as it is.

        >>> Cleaning(lower=True, strip=True).words(["«Well-known»", "--", "(GPL).", 7])
        ['well-known', 'gpl', 7]
        """
        found = [stripped(w) if self.strip and isinstance(w, str) else w for w in tokens]
        lowered = [w.lower() if self.lower and isinstance(w, str) else w for w in found]
        return [w for w in lowered if w != ""]


def stripped(word: str) -> str:
    """The word without the punctuation and the signs at its ends; a whole number as it is."""
    if _NUMBER.fullmatch(word):
        return word
    first, last = 0, len(word)
    while first < last and unicodedata.category(word[first])[0] in "PS":
        first += 1
    while last > first and unicodedata.category(word[last - 1])[0] in "PS":
        last -= 1
    return word[first:last]


def prose_sentences(lines: Iterable[Numbered], source: str) -> Iterator[Numbered]:
    """(number of its first line, text without its end mark) of each sentence of running text.

    A sentence ends at . ! ? or …, and at a blank line, so that a heading stands alone. A full stop
    ends none after a number at the start of a sentence (a list), after a single letter or a usual
    abbreviation, and before a word in lower case, unless the whole text has no capital letter.
    Raises BadTokens when no sentence ends by a mark.

    >>> text = [(1, "1. One stop,"), (2, "e.g. this. And"), (3, "that!")]
    >>> list(prose_sentences(text, "a text"))
    [(1, '1. One stop, e.g. this'), (2, 'And that')]
    """
    read = [(number, _WIDE.sub(r"\1 ", text).split()) for number, text in lines]
    capitals = any(word != word.lower() for _, words in read for word in words)
    held: list[str] = []
    start = marks = seen = 0
    found: list[Numbered] = []
    following = _following(read)
    for number, words in read:
        if not words and held:
            found.append((start, " ".join(held)))
            held = []
        for word in words:
            seen += 1
            start = start if held else number
            after = next(following)
            body = _ended(word, first=not held, after=after, capitals=capitals)
            held.append(word if body is None else body)
            if body is not None:
                marks += 1
                found.append((start, " ".join(held)))
                held = []
    if held:
        found.append((start, " ".join(held)))
    if seen and not marks:
        raise BadTokens(
            f"no sentence of {source} ends: there is no . ! ? or … at the end of any of its {seen} "
            "words; add them, or write one sentence a line and leave prose out"
        )
    return iter(found)


def _following(read: list[tuple[int, list[str]]]) -> Iterator[str | None]:
    """The word after each word, None where a blank line or the end comes first."""
    for place, (_, words) in enumerate(read):
        yield from words[1:]
        if words:
            after = read[place + 1][1] if place + 1 < len(read) else []
            yield after[0] if after else None


def _ended(word: str, *, first: bool, after: str | None, capitals: bool) -> str | None:
    """The word without its end mark when a sentence ends with it, else None."""
    wide = word.rstrip("。！？")
    if wide != word:
        return wide
    end = _END.fullmatch(word)
    if end is None:
        return None
    body, mark, close = end.group("body", "mark", "close")
    if set(mark) <= {".", "…"} and after is not None:
        bare = stripped(body).lower()
        letter = len(bare) == 1 and bare.isalpha() and bare != "i"
        listed = first and (bare.isdecimal() or letter)
        if mark == "." and (listed or letter or bare in _SHORT):
            return None
        opening = next((c for c in after if c.isalnum()), "")
        if capitals and opening.islower():
            return None
    return body + close

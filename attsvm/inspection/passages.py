"""Passages: texts for capture, from a file or from the samples that are shipped."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from attsvm._utils.files import check_in
from attsvm.errors import BadTokens, Unsupported

SAMPLES = ("prose", "reactions")


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
    if kind not in SAMPLES:
        raise Unsupported(f"no sample is called {kind!r}; there are {' and '.join(SAMPLES)}")
    return passages_of(files("attsvm.inspection").joinpath(f"{kind}.txt").read_text("utf-8"))

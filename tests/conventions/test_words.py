"""Words that readers stumbled over do not come back into pages, help, messages and docstrings."""

import re

from tests.conventions.tree import texts

GONE = re.compile(
    r"\b(doors?|sureness|inseparable|middling|nobody believes|how surely|"
    r"has got to|stands? beside|of one's own|one's own|as surely)\b",
    re.IGNORECASE,
)


def test_words_that_are_gone_stay_gone():
    found = {
        (name, match[0])
        for path, text in texts().items()
        if (name := str(path)).endswith((".md", ".py", ".toml", ".html"))
        and "/tests/" not in name
        and "CHANGELOG" not in name
        for match in GONE.finditer(text)
    }
    assert not found, f"say it in the words of docs/glossary.md: {sorted(found)}"

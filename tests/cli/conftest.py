"""Fixtures of the command line's tests."""

import pytest


@pytest.fixture
def text(tmp_path):
    """A function that writes a file and gives its path."""

    def write(content: str | bytes, name: str = "text.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write

"""Fixtures of the command line's tests."""

import pytest

from tests.cli.command import Run, runner


@pytest.fixture
def run(capsys, monkeypatch, tmp_path) -> Run:
    """`run("solve", path, …)`, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return runner(capsys, monkeypatch)


@pytest.fixture
def text(tmp_path):
    """A function that writes a file and gives its path."""

    def write(content: str | bytes, name: str = "text.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write

"""Fixtures of the reproduction's tests."""

import pytest

from tests.cli.command import Run, runner


@pytest.fixture
def run(capsys, monkeypatch, tmp_path) -> Run:
    """`run("reproduce", …)`, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return runner(capsys, monkeypatch)

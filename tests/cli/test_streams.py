"""Streams that cannot take what is printed: another encoding, a closed one, a reader that left."""

import io
import os
import subprocess
import sys

import pytest

from attsvm.cli import app, main
from attsvm.datasets import EXAMPLES
from tests.cli.command import save
from tests.conventions.tree import ROOT

# Commands that print something at once; each has a page of help besides.
COMMANDS = (
    "list", "show B.rank", "sweep", "hunt --list",
    "solve tokens.npz", "solve tokens.npz --json", "solve tokens.npz --norm nuclear",
    "solve line.npz", "optima tokens.npz", "certify tokens.npz best.npz", "inspect --list",
    "train tokens.npz --steps 20", "train tokens.npz --steps 20 --optimizer gd --optimizer sign",
    "hunt low-rank --instances 50", "sentences text.txt", "--version",
    *(f"{command.name} --help" for command in app.registered_commands),
)  # fmt: skip
CODES = {"solve line.npz": 3, "inspect --list": 2}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "tokens.npz", **EXAMPLES["multi-input-planar"]())
    save(tmp_path / "line.npz", X=[[[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]], alpha=[0])
    (tmp_path / "text.txt").write_text("à b\nb ≤\n≤ à\nà b ≤\nb à à ≤\n", "utf-8")
    return tmp_path


def call(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["attsvm", *words.split()])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


@pytest.mark.parametrize(("encoding", "commands"), [("ascii", COMMANDS), ("latin-1", COMMANDS[:6])])
def test_every_command_prints_in_every_encoding(folder, monkeypatch, encoding, commands):
    assert call("solve tokens.npz --out best.npz", monkeypatch) == 0
    for words in commands:
        with monkeypatch.context() as patch:
            out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = call(words, patch)
        assert code == CODES.get(words, 0), words
        assert out.buffer.getvalue() or code == 2, words
        if words == "sentences text.txt":  # what the encoding lacks is escaped
            assert b"\\xe0" in out.buffer.getvalue()


def test_closed_streams_are_nowhere(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert call("solve tokens.npz --out best.npz", monkeypatch) == 0
    assert (folder / "best.npz").exists()
    sys.stdout.close()
    sys.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of its own")
@pytest.mark.parametrize(("rest", "code"), [(">&-", 0), ("| head -c 0; exit ${PIPESTATUS[0]}", 1)])
def test_nobody_reads(folder, rest, code):
    shell = f"{sys.executable} -m attsvm solve tokens.npz {rest}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, ""), done

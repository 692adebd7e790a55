"""attsvm warm: runs its steps, counts what it compiled, and says where it is kept."""

import json

import numba
from typer.testing import CliRunner

from attsvm.cli import app
from attsvm.cli.parts import warming
from attsvm.ground import compiled


def test_what_was_compiled_is_counted(monkeypatch):
    kernels: list = []
    monkeypatch.setattr(compiled, "KERNELS", kernels)
    monkeypatch.setattr(warming, "KERNELS", kernels)
    kernel = numba.njit(lambda x: x + 1)
    kernels.append(kernel)
    monkeypatch.setattr(warming, "compiled", lambda: len(kernel.signatures))
    monkeypatch.setattr(warming, "steps", lambda: [("one", lambda: kernel(1))])
    first = CliRunner().invoke(app, ["warm", "--json"])
    assert first.exit_code == 0
    assert json.loads(first.stdout.splitlines()[-1])["compiled"] == 1


def test_steps_have_names_of_their_own():
    names = [name for name, _ in warming.steps()]
    assert len(names) == len(set(names)) > 20


def test_nothing_to_do_is_said(monkeypatch):
    monkeypatch.setattr(warming, "steps", lambda: [])
    done = CliRunner().invoke(app, ["warm"])
    assert done.exit_code == 0
    assert "nothing to compile" in done.stdout

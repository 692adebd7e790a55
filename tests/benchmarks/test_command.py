"""python -m benchmarks: what it prints, and what it refuses."""

import json
import subprocess
import sys

import pytest

from benchmarks import optimizers
from benchmarks.__main__ import main
from tests.conventions.tree import ROOT


def test_a_run_prints_json_and_leaves_its_record(tmp_path):
    words = ("--quick", "--only", "train-one", "--json", "--out", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    row = report["rows"][0]
    assert (row["work"], row["contestant"], row["note"]) == ("train-one", "ours", "")
    assert [str(path) for path in tmp_path.rglob("*.jsonl")] == [report["file"]]


def test_torch_races_optimizers_instead(monkeypatch, capsys):
    row = {"parameters": 10, "name": "SGD", "ms": 1.5, "rival": None, "ratio": None}
    rows = [row | {"reach": None, "met": None}]
    asked = []
    monkeypatch.setattr(optimizers, "run", lambda **options: asked.append(options) or rows)
    main(["torch", "--quick"])
    assert capsys.readouterr().out == optimizers.table(rows) + "\n"
    assert asked[0]["quick"] is True


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "cubic"], "unknown work 'cubic': known are frobenius-small"),
        (["torch", "--only", "stack"], "--only names works: leave it out with torch"),
        (["jax"], "invalid choice: 'jax'"),
    ],
)
def test_bad_input_is_one_sentence(words, sentence, capsys, tmp_path):
    with pytest.raises(SystemExit) as left:
        main([*words, "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert sentence in err.splitlines()[-1]
    assert not list(tmp_path.iterdir())

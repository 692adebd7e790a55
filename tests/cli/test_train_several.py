"""`attsvm train` with several optimizers, models or step sizes; figures in a paper's style."""

import json

import numpy as np
import pytest

from attsvm.training.path import Path
from tests.cli.command import problem, refused

PLANAR = ("--model", "prompt", "--steps", "40")
TWO = ("--optimizer", "ngd", "--optimizer", "sign")


@pytest.fixture
def tokens(tmp_path):
    return problem(tmp_path)


def test_every_combination_is_what_it_would_be_alone(run, tokens, tmp_path):
    words = (*TWO, "--lr", "0.1", "--lr", "0.5")
    done = run("train", tokens, *PLANAR, *words, "--out", "runs", "--json")
    assert done.code == 0, done
    report = done.report
    assert [(r["optimizer"], r["lr"]) for r in report["runs"]] == [
        ("ngd", 0.1), ("ngd", 0.5), ("sign", 0.1), ("sign", 0.5),
    ]  # fmt: skip
    listed = json.loads((tmp_path / "runs" / "comparison.json").read_text("utf-8"))["runs"]
    for one, row in zip(report["runs"], listed, strict=True):
        alone = run("train", tokens, *PLANAR, "--optimizer", one["optimizer"], "--lr", one["lr"],
                    "--out", "one.npz", "--force", "--json").report  # fmt: skip
        for name in set(alone) - {"seconds", "head"}:
            assert one[name] == alone[name], name
        saved, single = (Path.load(tmp_path / f) for f in (f"runs/{row['file']}", "one.npz"))
        for name, block in saved.arrays().items():
            assert np.array_equal(block, single.arrays()[name], equal_nan=block.dtype.kind == "f")
        assert one["shares"][one["limit"]["norm"]] == alone["margin_share"]


def test_a_table_and_a_picture(run, tokens, tmp_path):
    done = run(
        "train", tokens, *PLANAR, "--optimizer", "ngd", "--optimizer", "adam", "--figure", "two.svg"
    )
    assert done.code == 0, done
    for word in ("2 runs of 40 steps", "ngd", "adam", "frobenius", "certified share", "*"):
        assert word in done.out
    assert "nuclear" not in done.out  # a column has it in common with frobenius
    assert (tmp_path / "two.svg").read_text("utf-8").rstrip().endswith("</svg>")


@pytest.mark.parametrize("words", [("--optimizer", "ngd"), TWO])
def test_paper_is_a_column_with_whole_fonts(run, tokens, tmp_path, words):
    done = run("train", tokens, *PLANAR, *words, "--figure", "a.pdf", "--style", "paper")
    assert done.code == 0, done
    page = (tmp_path / "a.pdf").read_bytes()
    assert b"/MediaBox [ 0 0 234 " in page  # 3.25 inches
    assert b"/FontFile2" in page and b"/Type3" not in page


def test_both_stages_are_drawn_for_paper(run, text, tmp_path):
    words = text("a b\nb c\nc a\na b c\nb a a c\n")
    done = run("train", words, "--model", "next-token", "--steps", "50", "--decoder-steps", "50",
               "--figure", "a.pdf", "--style", "paper")  # fmt: skip
    assert done.code == 0, done
    assert b"/MediaBox [ 0 0 234 " in (tmp_path / "a.pdf").read_bytes()


def test_a_rule_that_cannot_train_is_named_and_the_others_are_reported(run, tokens):
    words = ("--optimizer", "ngd", "--optimizer", "mirror:1.5", "--decay", "0.1")
    done = run("train", tokens, *PLANAR, *words, "--json")
    assert done.code == 5
    good, bad = done.report["runs"]
    assert good["refused"] is None and good["loss"] > 0
    assert "not defined for mirror:1.5" in bad["refused"]
    assert done.err.count("\n") == 1 and "mirror:1.5" in done.err and "not trained" in done.err
    assert "refused" in run("train", tokens, *PLANAR, *words).out


def test_a_run_that_diverges_is_named(run, tokens):
    words = ("--optimizer", "gd", "--optimizer", "ngd", "--lr", "1e308")
    done = run("train", tokens, *PLANAR, *words, "--json")
    assert done.code in (0, 3, 4)
    assert "gd, lr 1e+308 diverged at step" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--optimizer", "ngd", "--optimizer", "ngd"), "optimizers has 'ngd' twice"),
        (("--lr", "0.1", "--lr", "0.10"), "lrs has 0.1 twice"),
        ((*TWO, "--proof", "p.npz"), "--proof is for one run"),
        ((*TWO, "--resume", "p.npz"), "--resume is for one run"),
        ((*TWO, "--until", "proved"), "--until is for one run"),
        (("--model", "prompt", "--model", "next-token"), "compared on tokens alone"),
        (("--lr", "0.1", "--lr", "nan"), "positive and finite"),
        ((*TWO, "--out", "a.npz"), "a folder, not as .npz"),
        ((*TWO, "--out", "no/such/folder"), "does not exist"),
        ((*TWO, "--figure", "a.txt"), "a figure ends in one of"),
        ((*TWO, "--ties"), "--ties is for sentences"),
        (("--style", "paper"), "give --figure"),
        (("--style", "wide", "--figure", "a.png"), "known are screen, paper"),
    ],
)
def test_what_fits_one_run_is_refused_in_a_sentence(run, tokens, words, said):
    refused(run("train", tokens, *words), said)


def test_a_folder_of_ones_own_is_never_replaced(run, tokens, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    words = (*PLANAR, *TWO, "--out", "mine", "--force")
    refused(run("train", tokens, *words), "mine exists and has no attsvm.json")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"

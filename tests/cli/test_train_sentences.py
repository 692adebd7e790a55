"""`attsvm train` on sentences: reports, files, figures, and what is refused."""

import json

import numpy as np
import pytest

from attsvm import Sentences, train
from attsvm.datasets.sentences import closed, cyclic, realizable
from attsvm.next_token.order import orders
from attsvm.next_token.problems import solve_attention
from attsvm.theory.measures import correlation
from attsvm.training.path import Path
from tests.cli.command import leaves_nothing, refused

GOOD = "a A\nb B\nc C\nd D\na b d A\nb c d B\nc d c C\na a d A\n"
TORN = "a A\nb B\nc C\na b c A\nb a c B\n"
ROUND = "a A\nb B\nc C\nd D\na b d A\nb c d B\nc a d C\n"
SHORT = ("--steps", 200, "--decoder-steps", 100)


def written(lines):
    return "".join(" ".join(map(str, line)) + "\n" for line in lines)


def test_published_figures(run, text):
    file = text(written(closed(20, 4, seed=0)))
    done = run("train", file, "--model", "next-token", "--json")
    assert done.code == 0 and done.err == ""
    report = done.report
    assert report["status"] == "optimal" and report["realizable"]
    assert report["limit"]["established"] and len(report["limit"]["premises"]) == 4
    # The generated file holds each collocation once: its weights are uniform.
    assert report["norm"]["W_ov"] == pytest.approx(0.2 / np.sqrt(20) * 2000, rel=1e-9)
    assert report["correlation"]["W_ov"] == pytest.approx(1, abs=1e-9)
    assert report["margin_share"]["W_ov"] == pytest.approx(1, abs=1e-9)
    best = report["certificates"]["W_ov"]
    assert best["lower"] <= np.sqrt(19) <= best["upper"] and best["gap"] < 1e-9
    assert report["decoder_loss"] == pytest.approx(2.3292648e-8, rel=1e-6)
    assert report["infimum"] == pytest.approx(report["decoder_loss"], rel=1e-9)
    assert report["loss"] == pytest.approx(report["infimum"] + report["excess"], rel=1e-9)
    assert 0 < report["excess"] < 1e-8
    assert report["correlation"]["W_kq"] > 0.98 and report["certificates"]["W_kq"]["gap"] < 1e-9
    assert 0 < report["margin_share"]["W_kq"] < 1
    assert report["top_optimal"] == pytest.approx(1)
    assert report["steps"] == {"W_kq": 4000, "W_ov": 2000}


def test_saved_run_is_both_stages(run, text):
    lines = realizable(12, 3, 25, 1)
    file = text(written(lines))
    done = run("train", file, "--model", "next-token", *SHORT, "--out", "run.npz", "--json")
    assert done.code == 0
    data = Sentences.of(lines)
    first = train(data, model="decoder", lr=0.2 / np.sqrt(12), steps=100)
    second = train(data, model="next-token", head=first, lr=0.05 / np.sqrt(12), steps=200)
    path = Path.load("run.npz")
    assert path.config["model"] == "next-token" and int(path.steps[-1]) == 200
    np.testing.assert_allclose(path.weights["W_kq"], second.weights["W_kq"], rtol=1e-12)
    with np.load("run.npz", allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["W_ov"], first.weights["W_ov"][-1, 0], rtol=1e-12)
        np.testing.assert_array_equal(arrays["decoder.steps"], first.steps)
        np.testing.assert_array_equal(arrays["E"], np.eye(12))
        # What is saved is enough to go on: the decoder again as a head.
        again = train(data, model="next-token", head=arrays["W_ov"], lr=0.01, steps=1)
    assert again.loss[0, 0] == pytest.approx(second.loss[0, 0], rel=1e-12)
    found = orders(data)
    best = solve_attention(found, np.eye(12))
    wanted = float(correlation(second.weights["W_kq"][-1, 0], best.W))
    assert done.report["correlation"]["W_kq"] == pytest.approx(wanted, rel=1e-9)
    refused(run("train", file, "--model", "next-token", *SHORT, "--out", "run.npz"), "--force")
    assert (
        run("train", file, "--model", "next-token", *SHORT, "--out", "run.npz", "--force").code == 0
    )


def test_table_and_figure(run, text):
    file = text(GOOD)
    done = run("train", file, "--model", "next-token", *SHORT, "--figure", "run.svg")
    assert done.code == 0 and done.err == ""
    for word in ("next-token on text.txt", "realizable", "correlation", "W_ov", "infimum"):
        assert word in done.out
    with open("run.svg", encoding="utf-8") as stream:
        assert stream.read(5) == "<?xml"


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ("--model decoder --steps 60", {"W_ov": 60}),
        ("--model joint-next-token --steps 60", {"W_kq": 60, "W_ov": 60}),
        ("--model next-token --steps 60 --readout mass", {"W_kq": 60}),
        ("--model next-token --steps 60 --decoder-steps 30 --decoder-lr 0.5 --lr 0.1 "
         "--optimizer gd --schedule sqrt --init normal:0.1 --seed 3",
         {"W_kq": 60, "W_ov": 30}),
        ("--model next-token --steps 60 --decoder-steps 30 --optimizer sign",
         {"W_kq": 60, "W_ov": 30}),
    ],
)  # fmt: skip
def test_other_runs(run, text, words, steps):
    done = run("train", text(GOOD), *words.split(), "--out", "o.npz", "--figure", "f.png", "--json")
    assert done.code == 0, done
    report = done.report
    assert report["steps"] == steps and set(report["certificates"]) == set(steps)
    assert all(best["status"] == "optimal" for best in report["certificates"].values())
    assert Path.load("o.npz").config["model"] == words.split()[1]
    if "--optimizer sign" in words:
        assert report["certificates"]["W_kq"]["norm"] == "max"
        assert "max norm" in report["certificates"]["W_kq"]["message"]


def test_ties_are_accepted_when_asked(run, text):
    file = text(written(cyclic(12, 4, 30, 0)))
    done = run("train", file, "--model", "next-token", "--ties", "--readout", "mass", "--schedule",
               "sqrt", "--lr", 0.3, "--steps", 20000, "--json")  # fmt: skip
    assert done.code == 0
    report = done.report
    assert not report["realizable"] and report["faults"]["cycle"] > 0
    # The direction is that of the graph problem beside the finite part, the infimum its loss.
    assert report["correlation"]["W_kq"] > 0.99
    assert 0 < report["excess"] < 1e-4 and report["infimum"] > 0.1
    assert report["margin_share"]["W_kq"] is None
    soft = run("train", file, "--model", "next-token", "--ties", *SHORT, "--json").report
    assert soft["infimum"] is None and soft["excess"] is None and soft["loss"] > 0


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("", "", ["text.txt is empty"]),
        (TORN, "", ["line 4", "line 5", "two labels", "--ties"]),
        (ROUND, "", ["goes round", "line 5", "line 6", "line 7", "--ties"]),
        ("a A\nb B\na b B\na b A\nb b C\n", "", ["line 3", "line 4", "--ties", "more"]),
        ("a b c\nb c a\n", "", ["no token has a known follower"]),
        ("a b c\nb c a\n", "--ties", ["no token has a known follower"]),
        ("a A\nb B\n", "", ["no sentence of three or more tokens"]),
        ("a A\nb B\na b C\n", "", ["line 3", "followed by its label", "--ties"]),
        ("a A\na B\na a A\n", "", ["line 1", "line 2", "one follower"]),
        (b"a A\nb \x00\n", "", ["line 2", "zero byte"]),
        (GOOD, "--collocations nowhere.txt", ["nowhere.txt does not exist"]),
        (GOOD, "--head linear", ["--head does not fit --model next-token"]),
        (GOOD, "--queries last", ["--queries does not fit"]),
        (GOOD, "--sequence", ["--sequence does not fit"]),
        (GOOD, "--loss logistic", ["--loss does not fit"]),
        (GOOD, "--width 3", ["--width does not fit"]),
        (GOOD, "--until proved", ["--until does not fit"]),
        (GOOD, "--resume path.npz", ["--resume does not fit"]),
        (GOOD, "--init file", ["--init file needs a problem file"]),
        (GOOD, "--init random", ["unknown init"]),
        (GOOD, "--readout mass --decoder-lr 0.1", ["--decoder-lr does not fit", "mass"]),
        (GOOD, "--decoder-lr 0", ["--decoder-lr is 0"]),
        (GOOD, "--decoder-lr nan", ["--decoder-lr is nan"]),
        (GOOD, "--decoder-steps -1", ["--decoder-steps"]),
        (GOOD, "--lr -1", ["--lr is -1"]),
        (GOOD, "--readout sum", ["unknown readout 'sum'", "softmax, mass"]),
        (GOOD, "--option eps=1", ["no option eps"]),
    ],
)
def test_refused(run, text, tmp_path, content, words, said):
    leaves_nothing(run, tmp_path, text(content), "--model", "next-token", *words.split(), said=said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model decoder --decoder-steps 5", ["--decoder-steps does not fit --model decoder"]),
        ("--model decoder --readout mass", ["--readout does not fit --model decoder"]),
        ("--model joint-next-token --decoder-lr 1", ["--decoder-lr does not fit"]),
        ("--model joint-next-token --readout mass", ["--readout does not fit"]),
        ("--model weight --ties", ["--ties is for sentences", "next-token"]),
        ("--model prompt --decoder-steps 5", ["--decoder-steps is for sentences"]),
        ("--model weight", ["text.txt is not an .npz file"]),
    ],
)
def test_options_of_other_models(run, text, tmp_path, words, said):
    leaves_nothing(run, tmp_path, text(GOOD), *words.split(), said=said)


def test_missing_file_and_folder(run, tmp_path):
    leaves_nothing(run, tmp_path, "no.txt", "--model", "next-token", said=["no.txt does not exist"])
    refused(run("train", tmp_path, "--model", "decoder"), "is a folder")


def test_a_decoder_needs_no_sentences(run, text):
    done = run("train", text("a A\nb B\n"), "--model", "decoder", "--steps", 50, "--json")
    assert done.code == 0 and json.loads(done.out)["correlation"]["W_ov"] == pytest.approx(1)


def test_a_diverging_run_says_so(run, text):
    done = run("train", text(GOOD), "--model", "next-token", *SHORT, "--lr", 1e308, "--json")
    assert done.report["diverged"]["W_kq"] >= 0
    assert "diverged at step" in done.err and "smaller --lr" in done.err


def test_the_sentences_are_not_replaced(run, text, tmp_path):
    good = text(GOOD)
    refused(run("train", good, "--model", "next-token", "--out", good, "--force"), "--out", "text")
    assert good.read_bytes() == GOOD.encode() and len(list(tmp_path.iterdir())) == 1


def test_words_that_a_terminal_would_obey_are_told_with_escapes(run, text):
    torn = text(TORN.replace("a", "\x1b[31m"))
    refused(run("train", torn, "--model", "next-token"), r"\x1b[31m b c → A")


def test_unseen_sentences_are_asked(run, text):
    file = text(written(realizable(8, 3, 25, 0)))
    done = run("train", file, "--model", "next-token", "--unseen", "60", "--json")
    seen = done.report["unseen"]
    assert seen["sentences"] == 60 and seen["agreed"] == seen["wide"] > 10
    assert seen["wide"] + seen["ties"] <= 60
    shown = run("train", file, "--model", "next-token", "--unseen", "60").out
    assert "unseen sentences" in shown and f"{seen['ties']} are ties" in shown
    plain = run("train", file, "--model", "next-token", "--steps", "10", "--json")
    assert plain.report["unseen"] is None


def test_unseen_sentences_that_cannot_be_asked(run, text):
    words = ("train", text(written(realizable(8, 3, 25, 0))), "--steps", "5", "--unseen")
    few = run(*words, "100000", "--model", "next-token")
    refused(few, "unseen sentences were found where 100000 were asked")
    mass = run(*words, "5", "--model", "next-token", "--readout", "mass")
    refused(mass, "--unseen does not fit --model next-token with --readout mass")
    refused(run(*words, "5", "--model", "decoder"), "--unseen")

"""`solve --certificate` writes what `certify` rechecks alone."""

import numpy as np
import pytest

from attsvm import Certificate
from tests.cli.command import NORMS, refused, save
from tests.cli.test_certify import INFEASIBLE, PROBLEMS, change
from tests.tolerances import FORGED_SLIGHTLY, ROUNDING


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("case", PROBLEMS)
def test_what_solve_wrote_is_rechecked_alone(run, tmp_path, case, norm):
    arrays, problem = PROBLEMS[case]
    code = 3 if case in INFEASIBLE else 0
    file = save(tmp_path / "tokens.npz", **arrays)
    words = ("--norm", norm, "--problem", problem, "--certificate", "best.npz", "--json")
    solved = run("solve", file, *words)
    assert solved.code == code, solved
    file.unlink()  # the certificate holds all that is needed
    checked = run("certify", "best.npz", "--exact", "--json")
    assert checked.code == code, checked
    report = checked.report
    assert report["claims"] == "hold" and report["exact"]["ok"]
    for name in ("status", "norm", "rows", "proof"):
        assert report[name] == solved.report[name], name
    if not code:
        assert report["lower"] == pytest.approx(solved.report["lower"], rel=ROUNDING)


def test_both_files_are_written(run, tmp_path):
    file = save(tmp_path / "tokens.npz", **PROBLEMS["ties"][0])
    assert run("solve", file, "--out", "best.npz", "--certificate", "proof.npz").code == 0
    assert run("certify", file, "best.npz").code == 0
    assert run("certify", "proof.npz").code == 0
    assert Certificate.load(tmp_path / "proof.npz").verify(exact=True)
    refused(run("solve", file, "--certificate", "proof.npz"), "proof.npz exists", "--force")
    assert run("solve", file, "--certificate", "proof.npz", "--force").code == 0
    same = ("--out", "a.npz", "--certificate", "a.npz")
    refused(run("solve", file, *same), "--out and --certificate both name a.npz")
    refused(run("solve", file, "--certificate", "no/a.npz"), "the folder no does not exist")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best.npz", "proof.npz", "tokens.npz",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [(), ("--json",), ("--exact",)])
def test_prints(run, tmp_path, words):
    save(tmp_path / "tokens.npz", **PROBLEMS["ties"][0])
    run("solve", "tokens.npz", "--certificate", "proof.npz")
    done = run("certify", "proof.npz", *words)
    assert done.code == 0 and done.err == ""
    assert "hold" in done.out and "optimal" in done.out
    assert ("{" in done.out) == ("--json" in words)


def test_a_soft_margin(run, tmp_path):
    save(tmp_path / "line.npz", **PROBLEMS["a line"][0])
    assert run("solve", "line.npz", "--C", "2", "--certificate", "proof.npz").code == 0
    report = run("certify", "proof.npz", "--json").report
    assert report["C"] == 2.0 and report["claims"] == "hold"


@pytest.mark.parametrize("exact", [(), ("--exact",)])
@pytest.mark.parametrize(
    ("name", "forge"),
    [
        ("lower", lambda a: a * (1 + FORGED_SLIGHTLY)),
        ("upper", lambda a: a * (1 - FORGED_SLIGHTLY)),
        ("W", lambda a: -a),
        ("multipliers", lambda a: 0 * a),
        ("keys", lambda a: 1.01 * a),
        ("b", lambda a: 1.01 * a),
        ("norm", lambda a: np.str_("l1")),
    ],
)
def test_forgeries_are_seen(run, tmp_path, name, forge, exact):
    save(tmp_path / "tokens.npz", **PROBLEMS["ties"][0])
    run("solve", "tokens.npz", "--certificate", "proof.npz")
    with np.load(tmp_path / "proof.npz") as archive:
        before = archive[name]
    change(tmp_path / "proof.npz", **{name: forge(before)})
    done = run("certify", "proof.npz", "--json", *exact)
    assert done.code == 5, done
    assert done.report["claims"] != "hold"
    assert done.err.startswith("attsvm: proof.npz: ") and done.err.count("\n") == 1


def test_what_is_no_certificate_is_refused(run, tmp_path):
    file = save(tmp_path / "tokens.npz", **PROBLEMS["ties"][0])
    run("solve", file, "--out", "best.npz", "--certificate", "proof.npz")
    refused(run("certify", file), "not a saved certificate", "attsvm_certificate")
    refused(run("certify", "best.npz"), "not a saved certificate")
    refused(run("certify", file, "proof.npz"), "proof.npz is a saved certificate")
    for option in (("--norm", "l1"), ("--problem", "labels"), ("--tol", "1e-3")):
        refused(run("certify", "proof.npz", *option), f"{option[0]} goes with a solution")
    change(tmp_path / "proof.npz", attsvm_certificate=np.int64(7))
    refused(run("certify", "proof.npz"), "certificate format 7; this version reads 1")
    change(tmp_path / "proof.npz", attsvm_certificate=np.int64(1), queries=None)
    refused(run("certify", "proof.npz", "--json"), "no array queries")

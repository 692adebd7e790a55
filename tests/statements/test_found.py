"""What hunts have found breaks its statement: by the statement's own check, and by another."""

import subprocess
import sys

import numpy as np
import pytest

from attsvm.errors import Unsupported
from attsvm.statements import STATEMENTS
from attsvm.statements.parts.descent import start_proof
from tests.house.tree import ROOT
from tests.statements import independent
from tests.statements.found import CHECKS, FOUND


def instance(name, drawn=None):
    arrays = {k: np.array(a, dtype=float) for k, a in (drawn or FOUND[name]).items()}
    return STATEMENTS[name].space.instance(arrays)


@pytest.mark.parametrize("name", FOUND)
def test_it_breaks_the_statement(name):
    statement, one = STATEMENTS[name], instance(name)
    assert statement.holds_premises(one)
    assert statement.broken_by(one) > statement.tolerance
    assert statement.checked(one).proved, statement.checked(one).says


@pytest.mark.parametrize("name", CHECKS)
def test_it_breaks_it_by_plain_fractions(name):
    assert CHECKS[name](independent.exact(FOUND[name]))


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("every-input-tight", {"X": [[[0], [-1]], [[1], [0]]]}),
        ("strict-order", {"marks": [[2, 1]]}),
        ("weak-order", {"marks": [[1, 2, 0], [0, 0, 1]]}),
        ("least-norm", {"X": [[[2, 0], [0, 1]]], "v": [1, 0]}),
        ("nuclear-rank", {"X": [[[0, 1], [0, 0]], [[0, 0], [0, 1]]], "z": [[0, 1], [1, 0]]}),
    ],
)
def test_a_harmless_instance_breaks_nothing(name, drawn):
    assert not CHECKS[name](independent.exact(drawn))
    one = instance(name, drawn)
    assert STATEMENTS[name].broken_by(one) <= STATEMENTS[name].tolerance
    assert not STATEMENTS[name].checked(one).proved


def test_the_start_that_strays_is_proved_without_the_package(tmp_path):
    one = instance("equal-scores")
    assert independent.others_share_a_score(independent.exact(FOUND["equal-scores"]))
    assert max(np.abs(one["X"]).max(), np.abs(one["v"]).max()) <= 2
    proof = start_proof(one)
    best = independent.best_of(independent.exact(FOUND["equal-scores"]))
    assert proof.selection.tolist() != best
    proof.save(tmp_path / "proof.npz")
    done = subprocess.run(
        [sys.executable, ROOT / "tools/check_proof.py", tmp_path / "proof.npz"],
        capture_output=True,
        text=True,
        env={},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_claims_are_found_by_their_id():
    from attsvm.statements import statement_of

    assert statement_of("B.loss-level").name == "loss-level"
    with pytest.raises(Unsupported, match=r"several statements.*strict-order"):
        statement_of("D.order-extension-ties")
    with pytest.raises(Unsupported, match=r"A\.joint-path cannot be hunted; these.*equal-scores"):
        statement_of("A.joint-path")
    with pytest.raises(Unsupported, match="nearest are low-rank"):
        statement_of("lowrank")

"""What hunts have found breaks its statement: by the statement's own check, and by another."""

import subprocess
import sys

import numpy as np
import pytest

import attsvm
from attsvm.errors import Unsupported
from attsvm.experiments.counterexamples import block_at, draw, listed, slices
from attsvm.experiments.statements import STATEMENTS
from attsvm.experiments.statements.descent import start_proof
from attsvm.experiments.statements.statement import Field, Space, Statement, check_statement
from tests.conventions.tree import ROOT
from tests.experiments.statements import independent
from tests.experiments.statements.found import CHECKS, FOUND


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
        ("proposition-2", {"marks": [[2, 1, 1, 0], [0, 1, 1, 2]]}),
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
    assert rechecked(proof, tmp_path)


def rechecked(proof, folder):
    """Whether the checker that shares no code with the package says that a proof holds."""
    proof.save(folder / "proof.npz")
    command = [sys.executable, ROOT / "tools/check_proof.py", folder / "proof.npz"]
    return subprocess.run(command, capture_output=True, env={}).returncode == 0


def test_a_first_gradient_that_prefers_the_best_tokens_is_not_enough(tmp_path):
    """Theorem 6 with short steps: plain descent by hand, then the proof without the package."""
    X = np.array([[[-1, -2], [3, 0]], [[2, 0], [2, 3]], [[-2, -2], [-3, -1]]], dtype=float)
    v, best = np.array([3.0, 1.0]), [1, 1, 0]
    size, length = np.linalg.norm(X, ord=2, axis=(1, 2)), np.linalg.norm(v)
    lr = 1 / np.mean(length * size**3 * (length * size / 4 + 3))
    a = X[[0, 1, 2], best] - X[[0, 1, 2], [1 - t for t in best]]
    low, gap = (X @ v).min(axis=1), a @ v
    p = np.zeros(2)
    for step in range(30_000):
        s = 1 / (1 + np.exp(-a @ p))
        pull = (s * (1 - s) * gap / (1 + np.exp(low + s * gap))) @ a / 3
        assert step or (a @ pull > 0).all()  # the first gradient prefers every best token
        p += lr * pull
    tokens = attsvm.Tokens(X, labels=np.ones(3))
    proof = attsvm.proof_of_convergence(tokens, p, head=v, optimizer="gd", lr=lr)
    assert proof.selection.tolist() != best
    assert rechecked(proof, tmp_path)


def test_the_strict_order_asks_for_no_confused_token():
    """Sentences 0 [1] 3; 2 [3]: token 3 is above 2 and below 1, and ties with 0."""
    statement, one = STATEMENTS["strict-order"], instance("strict-order", TIED)
    assert statement.broken_by(one) > statement.tolerance
    assert not statement.holds_premises(one)
    assert statement.kind == "theorem"


TIED = {"marks": [[1, 2, 0], [0, 0, 1]]}


def test_claims_are_found_by_their_id():
    from attsvm.experiments.statements import statement_of

    assert statement_of("B.loss-level").name == "loss-level"
    with pytest.raises(Unsupported, match=r"several statements.*weak-order"):
        statement_of("D.confused-tokens")
    assert statement_of("D.star-orders").name == "strict-order"
    with pytest.raises(Unsupported, match=r"A\.joint-path cannot be hunted; these.*equal-scores"):
        statement_of("A.joint-path")
    with pytest.raises(Unsupported, match="nearest are low-rank"):
        statement_of("lowrank")


PROVED = [name for name, s in STATEMENTS.items() if s.kind == "theorem"]


@pytest.mark.parametrize("name", STATEMENTS)
def test_it_can_be_hunted(name):
    statement = check_statement(STATEMENTS[name], name)
    assert statement.name == name
    assert statement.premises.__module__.startswith("attsvm.experiments.statements.")
    assert statement.says.endswith(".") or statement.says.endswith(")")
    assert statement.confirm is not None


@pytest.mark.parametrize("name", PROVED)
def test_small_draws_do_not_break_what_is_proved(name):
    statement = STATEMENTS[name]
    rng, block, held = np.random.default_rng([1, 1]), block_at(statement, 6), 0
    for _ in range(12 if statement.block < 200 else 60):
        one = statement.space.instance(draw(statement.space, block, rng))
        if statement.holds_premises(one):
            held += 1
            assert statement.broken_by(one) <= statement.tolerance, one
    assert held, "the premises never hold: nothing was tried"


def test_every_instance_of_a_small_size_is_listed_once():
    statement = Statement(
        "pairs",
        says="",
        kind="planted",
        space=Space({"n": (1, 2)}, (Field("x", ("n",)), Field("s", (1,), values=(1.0, -1.0)))),
        block=7,
    )
    seen: dict[int, set] = {1: set(), 2: set()}
    for sizes, level, first, count in slices(statement):
        if level != "−2..2":
            continue
        turn = slices(statement).index((sizes, level, first, count))
        index = 7 * (turn // 2) + 3 * (turn % 2)
        block = block_at(statement, index)
        for drawn in listed(statement.space, block):
            seen[sizes["n"]].add((*drawn["x"], *drawn["s"]))
    assert [len(seen[1]), len(seen[2])] == [5 * 2, 25 * 2]


def test_blocks_are_fixed_by_their_number():
    statement = STATEMENTS["low-rank"]
    block = block_at(statement, 9)
    rng = np.random.default_rng
    first, again = (draw(statement.space, block, rng([3, 9])) for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)

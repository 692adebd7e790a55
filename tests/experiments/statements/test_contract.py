"""Every statement keeps the contract; small draws do not break those that are proved."""

import numpy as np
import pytest

from attsvm.experiments.counterexamples.plan import block_at, draw, listed, slices, stream
from attsvm.experiments.statements import STATEMENTS
from attsvm.experiments.statements.statement import Field, Space, Statement, check_statement

PROVED = [name for name, s in STATEMENTS.items() if s.kind == "theorem"]


@pytest.mark.parametrize("name", STATEMENTS)
def test_it_can_be_hunted(name):
    statement = check_statement(STATEMENTS[name], name)
    assert statement.name == name
    assert statement.premises.__module__.startswith("attsvm.experiments.statements.")
    assert statement.says.endswith(".") or statement.says.endswith(")")
    assert statement.confirm is not None or name in ("power-unique", "factored-sign")


@pytest.mark.parametrize("name", PROVED)
def test_small_draws_do_not_break_what_is_proved(name):
    statement = STATEMENTS[name]
    rng, block, held = stream(1, block_at(statement, 1)), block_at(statement, 6), 0
    for _ in range(12 if statement.block < 200 else 60):
        one = statement.space.instance(draw(statement.space, block, rng))
        if statement.holds_premises(one):
            held += 1
            assert statement.broken_by(one) <= statement.tolerance, one
    assert held, "the premises never hold: nothing was tried"


def test_every_instance_of_a_small_size_is_listed_once():
    statement = Statement(
        "pairs",
        title="",
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
        index = 8 * (turn // 2) + 3 * (turn % 2)
        block = block_at(statement, index)
        for drawn in listed(statement.space, block):
            seen[sizes["n"]].add((*drawn["x"], *drawn["s"]))
    assert [len(seen[1]), len(seen[2])] == [5 * 2, 25 * 2]


def test_blocks_are_fixed_by_their_number():
    statement = STATEMENTS["low-rank"]
    block = block_at(statement, 9)
    first, again = (draw(statement.space, block, stream(3, block)) for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)

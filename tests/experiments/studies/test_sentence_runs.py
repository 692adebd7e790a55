"""The long tables of the studies on next-token prediction, and their sets."""

import numpy as np

from attsvm.experiments.studies.d.stages import PUBLISHED, QUANTITIES, published_figure
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.study import EXAMPLE
from attsvm.experiments.table import as_frame, check_columns


def _table(seeds):
    rows = shared.LongTable()
    for seed in seeds:
        rows.add(seed, {"inside": seed != 2, "gap": 1e-9 * seed})
        rows.curve(seed, "loss", [0, 10], [seed, seed / 2])
    return as_frame(check_columns(rows, "it", 0))


def test_numbers_and_curves_of_a_long_table():
    table = _table([1, 2, 3])
    numbers = shared.numbers_of(table)
    assert numbers.seed.tolist() == [1, 2, 3]
    assert numbers.inside.tolist() == [1, 0, 1]
    curves = shared.curves_of(table, "loss")
    assert curves.index.tolist() == [0, 10]
    assert curves.loc[10].tolist() == [0.5, 1.0, 1.5]


def test_an_example_counts_once_however_many_chunks_hold_it():
    table = _table([EXAMPLE, EXAMPLE])
    assert len(shared.numbers_of(table)) == 1
    assert shared.curves_of(table, "loss").shape == (2, 1)


def test_runs_are_thinned_with_both_ends():
    rows = shared.LongTable()
    steps = np.arange(500)
    rows.run(0, steps, {"norm": 2.0 * steps})
    found = check_columns(rows, "it", 0)
    assert len(found["x"]) == shared.MOST
    assert found["x"][[0, -1]].tolist() == [0, 499]
    assert np.array_equal(found["value"], 2 * found["x"])


def test_sets_outside_are_not_judged_and_their_gap_counts():
    ok, premises = shared.judged_sets(_table([1, 2]), "; more")
    assert ok.seed.tolist() == [1]
    assert premises.judged == 1
    assert premises.gap == 2e-9
    assert premises.text.startswith("1 of 2 random sets")
    assert premises.text.endswith("; more")


def test_a_closed_set_and_its_solutions():
    one = shared.ClosedSet(0)
    assert one.facts["inside"]
    assert one.facts["gap"] < 1e-9
    assert np.isclose(one.W_ov.upper, np.sqrt(19))
    assert np.allclose(shared.away(np.stack([one.W_kq.W, -one.W_kq.W]), one.W_kq), [0, 2])


def test_published_points_stand_at_their_steps():
    assert published_figure({"quantity": QUANTITIES["W_ov"][2], "x": 900.0}) == 40.3
    assert published_figure({"quantity": QUANTITIES["W_kq"][0], "x": 0.0}) == 1.0
    assert (
        published_figure({"quantity": QUANTITIES["W_kq"][0], "x": 100.0}) == 9.3 / PUBLISHED[0, 4]
    )
    assert np.isnan(published_figure({"quantity": QUANTITIES["W_kq"][1], "x": 10.0}))

"""The form of a study: its points, its sizes, its contract, its verdict."""

import numpy as np
import pandas
import pytest

from attsvm.errors import BadTokens
from attsvm.experiments.figures import figure_of
from attsvm.experiments.study import (
    BadStudy,
    Finding,
    Note,
    Premises,
    at_least,
    at_most,
    check_study,
    equals,
    info,
    judge,
    verdict_of,
)
from tests.experiments.made_studies import family, made, nothing

NAN = float("nan")


def test_points_are_the_product_in_order():
    study = made(grid={"n scale": [(1, 2.0), (3, 1.0)], "pause": [0.0, 0.1]}, run={"fault": -2})
    seen = [(p["n"], p["scale"], p["pause"], p["fault"]) for p in study.points()]
    assert seen == [(1, 2.0, 0.0, -2), (1, 2.0, 0.1, -2), (3, 1.0, 0.0, -2), (3, 1.0, 0.1, -2)]
    assert study.swept == ["n", "scale", "pause"] and study.instances == 40


def test_blocks_of_seeds_stay_when_seeds_are_added():
    assert made().blocks() == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    assert made(seeds=7, first=6).blocks() == [(6, 7), (8, 9, 10, 11), (12,)]


def test_a_quick_size_merges_tables_and_replaces_numbers():
    quick = made(quick={"seeds": 2, "grid": {"n": [2]}}).at(quick=True)
    assert quick.grid == {"n": [2], "scale": [1.0, 2.5]} and quick.seeds == 2
    assert made().at(quick=True, seeds=7, first=9).blocks() == [(9, 10, 11), (12, 13, 14, 15)]
    published = made(published=True)
    assert published.at(seeds=7, first=9) == published, "published instances stay"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "sizes"}, "id is a paper, a dot and a name"),
        ({"title": ""}, "title is a text"),
        ({"kind": "guess"}, "kind is one of theorem, figure, question"),
        ({"source": "read"}, "source is one of paper, code"),
        ({"reference": "nobody2020"}, "reference is one of"),
        ({"kind": "question", "differs": "x"}, "differs from nothing that is published"),
        ({"measure": None}, "it has no measure"),
        ({"measure": "seperable"}, "unknown measure 'seperable': nearest is separable"),
        ({"family": "gausian"}, "unknown family 'gausian': nearest is gaussian"),
        ({"checks": 3}, "checks is a function"),
        ({"grid": {"m": [1]}}, "grid: unknown parameter 'm'"),
        ({"run": {"pauze": 1}}, "nearest is pause"),
        ({"run": {"n": 1}}, "n is in run and in grid"),
        ({"grid": {"n": []}}, "grid.n is empty"),
        ({"seeds": 0}, "seeds is 0: it is a whole number from 1 on"),
        ({"first": -1}, "first is -1"),
        ({"group": 2.5}, "group is 2.5"),
        ({"quick": {"sedes": 1}}, "unknown key of quick 'sedes': nearest is seeds"),
        ({"quick": {"seeds": 0}}, "seeds is 0"),
        ({"figure": {"kind": "curvs", "x": "n", "value": "size"}}, "nearest is curves"),
        ({"figure": {"kind": "map", "x": "n", "value": "size"}}, "kind map needs y"),
        ({"figure": {"x": "n", "value": "size", "lined": "n"}}, "nearest is lines"),
        ({"figure": 3}, "figure is a table or a function"),
    ],
)
def test_what_breaks_the_contract_is_one_sentence(changes, said):
    with pytest.raises(BadStudy) as error:
        check_study(made(**changes))
    assert said in str(error.value) and str(error.value).startswith(changes.get("id", "Z.sizes"))
    assert "\n" not in str(error.value)


def test_values_of_curves_are_formulas_in_panels_of_their_own():
    table = pandas.DataFrame(
        {"n": [1, 1, 2, 2], "kind": ["a", "b", "a", "b"], "size": [0, 5, 1, 5]}
    )
    about = {"x": "n", "value": {"1 - size": "rest", "size": "size"}, "apart": True}
    figure = figure_of(made(figure={**about, "where": {"kind": ["a"]}}), table)
    assert [axes.get_title() for axes in figure.axes] == ["rest", "size"]
    assert [list(axes.lines[0].get_ydata()) for axes in figure.axes] == [[1, 0], [0, 1]]
    with pytest.raises(BadTokens, match="nearest is size"):
        figure_of(made(figure={"x": "n", "value": "sise"}), table)


def test_the_made_study_keeps_the_contract():
    check_study(made())


@pytest.mark.parametrize("check", [at_least, at_most, equals])
def test_nan_meets_no_threshold(check):
    assert check("x", NAN, 1.0).met is False and check("x", 1.0, NAN).met is False
    assert info("x", NAN).met is None


@pytest.mark.parametrize(
    ("check", "asked", "met"),
    [
        (at_least("x", 2.0, 2.0), "≥ 2", True), (at_least("x", 1.9, 2.0), "≥ 2", False),
        (at_most("x", 2.0, 2.0), "≤ 2", True), (at_most("x", 2.1, 2.0), "≤ 2", False),
        (equals("x", 2.0, 2.0), "= 2", True),
        (equals("x", 2.5, 2.0, within=0.5), "= 2 ± 0.5", True),
        (equals("x", 2.6, 2.0, within=0.5), "= 2 ± 0.5", False),
    ],
)  # fmt: skip
def test_a_check_says_what_was_asked(check, asked, met):
    assert (check.asked, check.met) == (asked, met)


def table(**columns):
    return pandas.DataFrame({"size": [1.0, 2.0], "large": [False, True], **columns})


def test_checks_are_read_from_the_table():
    found = judge(made(thresholds={"limit": 2.0, "rows": 2}), table())
    assert found.met and [c.seen for c in found.checks] == [2.0, 2.0, 0.5]
    assert found.premises == Premises(2, "2 instances", 1e-9) and found.reason == "A note."
    assert judge(made(thresholds={"limit": 1.9, "rows": 2}), table()).met is False


def test_an_impossible_threshold_fails_and_an_empty_table_is_undecided():
    study = made(thresholds={"limit": -1.0, "rows": 2})
    assert verdict_of(study, study, judge(study, table()))[0] == "fails"
    assert verdict_of(study, study, judge(study, pandas.DataFrame()))[0] == "undecided"
    none = made(checks=lambda table, thresholds: [Premises(0, "none meets the premises")])
    assert verdict_of(none, none, judge(none, table()))[0] == "undecided"


def test_a_missing_column_or_threshold_is_named():
    with pytest.raises(BadStudy, match=r"'large'.* has the columns size"):
        judge(made(), table().drop(columns="large").assign(size=1.0)[["size"]])
    with pytest.raises(BadStudy, match=r"'limit'.* the thresholds are none"):
        judge(made(thresholds={}), table())
    with pytest.raises(BadStudy, match=r"yields at_least.*of type str"):
        judge(made(checks=lambda table, thresholds: ["x"]), table())


MISSED = Finding((at_most("x", 2.0, 1.0),), Premises(1, "none"), "It is 2.")
FULL, SMALL = "as published", "not reproduced at this size"


@pytest.mark.parametrize("kind", ["theorem", "figure", "question"])
def test_what_is_from_memory_is_undecided_and_never_fails(kind):
    study = made(kind=kind, source="from memory")
    verdict, reason = verdict_of(study, study, MISSED)
    assert verdict == "undecided" and "from memory" in reason and reason.endswith("It is 2.")


@pytest.mark.parametrize(
    ("size", "run", "verdict"),
    [
        (FULL, {}, "fails"),
        (f"{FULL}, and longer", {"seeds": 20, "first": 7}, "fails"),
        (FULL, {"seeds": 9}, SMALL),
        (FULL, {"quick": True}, SMALL),
        ("10 of 500 instances", {}, SMALL),
        ("10 of 500 instances", {"seeds": 500}, "fails"),
        ("10 of 500 instances, shorter", {"seeds": 500}, SMALL),
        ("", {}, "fails"),
    ],
)
def test_a_figure_that_is_run_smaller_does_not_fail(size, run, verdict):
    figure = made(size=size)
    found, reason = verdict_of(figure, figure.at(**run), MISSED)
    assert found == verdict and ("smaller than the published" in reason) == (verdict == SMALL)
    theorem = made(kind="theorem", size="")
    assert verdict_of(theorem, theorem.at(**run), MISSED)[0] == "fails", "one instance is enough"


def test_what_is_met_holds_wherever_it_is_read():
    met = Finding((at_most("x", 0.0, 1.0),), Premises(1, "none"), "")
    study = made(source="from memory")
    assert verdict_of(study, study.at(quick=True), met) == ("holds", "")
    swept = made(checks=None, measure=nothing, family=family)
    assert verdict_of(swept, swept, MISSED)[0] == "measured"


def test_the_gap_is_the_largest_of_the_table():
    study = made(checks=lambda table, thresholds: [at_most("x", 0.0, 1.0), Note("")])
    found = judge(study, table(gap=[1e-9, 1e-7], seed=[4, 5]))
    assert found.premises == Premises(2, "2 instances", 1e-7)
    assert np.isclose(found.premises.gap, 1e-7)

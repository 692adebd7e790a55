"""The table of heads: plain, complete, and ready to be written down."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import attsvm
from attsvm import inspection
from attsvm.errors import BadTokens, Unsupported
from attsvm.inspection.measures import measure
from tests.inspection.built import content_view, head_view, random_view, sink_view

CONFIG = inspection.InspectionConfig(fit=30, test=60, draws=2, nuclear_draws=-1, attacks=5)


def shown(view):
    return measure(view, CONFIG)[1]


@pytest.fixture(scope="module")
def found():
    views = [sink_view(), replace(content_view(n=90), head=1), replace(random_view(90), head=2)]
    return inspection.inspect_views(views, name="built", config=CONFIG)


def test_every_head_is_a_row(found):
    columns = found.columns()
    assert list(columns) == list(inspection.FIELDS)
    assert {len(column) for column in columns.values()} == {3}
    assert columns["head"].tolist() == [0, 1, 2]
    assert columns["kind"] == ["sink", "content", columns["kind"][2]]
    assert found.counts()["sink"] == 1
    table = found.to_frame()
    assert list(table.index) == ["L0H0", "L0H1", "L0H2"]
    assert table.shape == (3, len(inspection.FIELDS) - 1)


def test_it_is_ready_for_json(found):
    plain = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert plain["heads"][0]["kind"] == "sink"
    assert plain["heads"][0]["nuclear_norm_ratio"] is None
    assert plain["config"]["fit"] == 30
    assert plain["thresholds"] == {"agreement": 0.5, "lift": 0.1}
    assert set(plain["fields"]) == set(plain["heads"][0])


def test_it_is_shown_within_a_screen(found):
    lines = repr(found).splitlines()
    assert len(lines) <= 24
    assert "1 sink" in lines[0]
    assert "violations" in repr(found)


def test_what_is_said_of_the_norm_names_the_queries(found):
    said = found.head("L0H1").sentence()
    assert "L0H1: " in said and "30 queries" in said
    assert "would suffice for its choices" in said
    assert "same spectrum and subspaces" in said
    shown = inspection.inspect_views([head_view(n=40)], config=CONFIG).heads[0]
    assert "posed in head space" in shown.sentence()
    few = inspection.inspect_views([head_view(n=5)], config=CONFIG)
    assert few.heads[0].sentence().endswith("a fit needs at least 30 queries.")
    assert "needs at least 30 queries" in repr(few)


def test_a_head_is_found_by_its_name_and_shows_its_queries(found):
    head = found.head("0.1")
    assert head.name == "L0H1" and "content" in repr(head)
    table = head.queries
    assert len(table) == head.record["queries"]
    view = content_view(n=90)
    assert (table["chosen"] == view.chosen()).all()
    assert table["attention"].to_numpy() == pytest.approx(view.attention().max(axis=1))
    with pytest.raises(Unsupported, match="L3H0 was not inspected"):
        found.head("L3H0")
    with pytest.raises(Unsupported, match="its model is not known"):
        head.pattern("a text")


def test_heads_are_drawn(found):
    assert len(found.plot().axes) == 1
    assert "L0H1" in found.head("L0H1").plot().axes[0].get_legend().get_texts()[0].get_text()
    few = inspection.inspect_views([head_view(n=5)], config=CONFIG)
    for plot in (few.heads[0].plot, few.plot):
        with pytest.raises(Unsupported, match="needs at least"):
            plot()


def test_a_page_shows_texts_with_what_may_be_dropped():
    view = random_view(n=90, scale=6.0)
    found = shown(view)
    for i, sample in enumerate(found["samples"]):
        assert len(sample["tokens"]) == len(sample["attention"]) == view.valid[i].sum()
        assert sum(sample["attention"]) == pytest.approx(1.0)
        assert sample["chosen"] == np.argmax(sample["attention"])
        assert sample["chosen"] not in sample["evictable"]
        kept = [p for t, p in enumerate(sample["attention"]) if t not in sample["evictable"]]
        assert all(sample["attention"][t] <= min(kept) for t in sample["evictable"])


def test_gaps_stand_beside_the_certified_best():
    gaps = shown(random_view(n=90, scale=6.0))["gaps"]
    assert gaps["head"] == sorted(gaps["head"])
    low, high = gaps["best"]
    assert low <= high
    assert gaps["svm"][0] == pytest.approx(low, rel=0.02)
    assert gaps["head"][0] <= high * (1 + 1e-9)  # no matrix of norm 1 does better


def test_it_is_saved_with_its_page(found, tmp_path):
    page = found.save(tmp_path / "out").read_text("utf-8")
    assert "Quick run:" in page and "30 queries are fitted and 60 held out" in page
    assert "no nuclear norm" in page and "no cross-entropy fits" not in page
    report = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert report["quick"] and report["heads"][1]["kind"] == "content"


def test_nothing_to_inspect_is_refused():
    with pytest.raises(BadTokens, match="no attention head to inspect"):
        inspection.inspect_views([])


def test_without_the_extra_one_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(Unsupported) as refused:
        attsvm.inspect("minilm")
    line = "attsvm.inspection needs torch and transformers: pip install '.[inspect]'"
    assert str(refused.value) == line

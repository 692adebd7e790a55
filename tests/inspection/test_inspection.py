"""The table of heads: plain, complete, and ready to be written down."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attsvm import inspection
from attsvm.errors import BadTokens
from attsvm.inspection.record import measure
from tests.inspection.built import content_view, place_view, random_view, rotary_view, sink_view

PLAN = inspection.InspectionConfig(fit=30, test=60, draws=2, nuclear_draws=-1, attacks=5)


def shown(view):
    return measure(view, PLAN)[1]


@pytest.fixture(scope="module")
def found():
    views = [sink_view(), replace(content_view(n=90), head=1), replace(random_view(90), head=2)]
    return inspection.inspect_views(views, name="built", plan=PLAN)


def test_every_head_is_a_row(found):
    columns = found.columns()
    assert list(columns) == list(inspection.FIELDS)
    assert {len(column) for column in columns.values()} == {3}
    assert columns["head"].tolist() == [0, 1, 2]
    assert columns["kind"] == ["sink", "content", columns["kind"][2]]
    assert found.counts()["sink"] == 1
    assert found.to_frame().shape == (3, len(inspection.FIELDS))


def test_it_is_ready_for_json(found):
    plain = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert plain["heads"][0]["kind"] == "sink"
    assert plain["heads"][0]["nuclear_economy"] is None
    assert plain["plan"]["fit"] == 30
    assert plain["thresholds"] == {"agreement": 0.5, "lift": 0.1}
    assert set(plain["fields"]) == set(plain["heads"][0])


def test_it_is_shown_within_a_screen(found):
    lines = repr(found).splitlines()
    assert len(lines) <= 24
    assert "1 sink" in lines[0]
    assert "violations" in repr(found)


def test_what_is_said_of_economy_names_the_queries(found):
    said = found.sentence(1)
    assert "30 queries" in said
    assert "would suffice for its choices" in said
    assert "same spectrum and subspaces" in said
    rotary = inspection.inspect_views([rotary_view(n=40)], plan=PLAN)
    assert rotary.rotary
    assert rotary.sentence(0).endswith("as it has no single W.")


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


def test_offsets_say_where_the_choice_stands():
    offsets = shown(place_view(before=2))["offsets"]
    at = offsets["offset"].index(-2)
    assert offsets["chosen"][at] == 1.0
    assert offsets["margin"][at] > 0
    assert max(m for k, m in zip(offsets["offset"], offsets["margin"], strict=True) if k != -2) < 0
    assert shown(rotary_view())["gaps"] == {}


def test_nothing_to_inspect_is_refused():
    with pytest.raises(BadTokens, match="no attention head to inspect"):
        inspection.inspect_views([])


def test_what_comes_next_is_told():
    told = []
    views = [replace(random_view(30), head=k) for k in (0, 1)]
    inspection.inspect_views(
        views, plan=PLAN, progress=lambda done, said: told.append((done, said))
    )
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert any("head 1, tight margins" in said for _, said in told)
    assert 1 < told[-1][0] < 2

"""Two checkpoints of one head: what grew is found again, and nothing is made of nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attsvm import inspection
from attsvm.errors import BadTokens
from attsvm.inspection.change import compare_views
from tests.inspection.built import content_view, head_view, random_view, view_of

CONFIG = inspection.InspectionConfig(fit=60, test=100, draws=1, nuclear_draws=-1, attacks=5)


def sharpened():
    """A head that was even before and asks for a kind of token after."""
    after = content_view(n=200)
    before = replace(after, query_factor=0.05 * after.query_factor)
    return before, after


def test_what_grew_is_foretold_on_unseen_queries():
    (row,) = compare_views([sharpened()], config=CONFIG).records
    assert row["sharpened"] > 0.5
    assert row["grown"] == 200
    assert (row["fitted"], row["tested"]) == (60, 100)
    assert min(row["growth_svm"], row["growth_change"]) > 0.9
    assert row["growth_rule"] < 0.5
    assert row["growth_cosine"] > 0.5
    assert row["change_norm"] == pytest.approx(19.0)


def test_other_heads_of_the_layer_make_the_band():
    before, after = sharpened()
    rng = np.random.default_rng(0)
    pairs = [(before, after)]
    for head in (1, 2):
        moved = rng.normal(size=after.query_factor.shape)
        other = replace(after, head=head, query_factor=after.query_factor + moved)
        pairs.append((replace(after, head=head), other))
    pairs.append((replace(before, layer=1), replace(after, layer=1)))
    found = compare_views(pairs, config=CONFIG)
    first, last = found.records[0], found.records[3]
    assert first["growth_cosine_low"] <= first["growth_cosine_high"] < first["growth_cosine"]
    assert np.isnan(last["growth_cosine_low"])  # alone in its layer
    assert found.to_frame().shape == (4, len(inspection.CHANGE_FIELDS) - 1)
    assert "4 attention heads" in repr(found)


def test_the_same_checkpoint_twice_has_no_growth():
    view = random_view(n=60)
    (row,) = compare_views([(view, view)], config=CONFIG).records
    assert row["grown"] == row["fitted"] == 0
    assert row["sharpened"] == row["change_norm"] == 0.0
    assert np.isnan(row["growth_svm"])
    json.dumps(compare_views([(view, view)], config=CONFIG).as_json(), allow_nan=False)


def test_heads_in_head_space_say_what_sharpened_alone():
    after = head_view(n=60)
    before = replace(after, query_factor=0.1 * after.query_factor)
    (row,) = compare_views([(before, after)], config=CONFIG).records
    assert row["sharpened"] > 0
    assert np.isnan(row["change_norm"])


def test_different_queries_are_refused():
    view = random_view(n=20)
    for other in (replace(view, head=1), replace(view, positions=0 * view.positions)):
        with pytest.raises(BadTokens, match="different queries"):
            compare_views([(view, other)], config=CONFIG)
    with pytest.raises(BadTokens, match="no attention head to compare"):
        compare_views([])


def test_heads_without_a_choice_change_nothing():
    view = view_of(np.ones((4, 1, 2)), np.ones((4, 2)), np.eye(2))
    (row,) = compare_views([(view, view)], config=CONFIG).records
    assert row["queries"] == row["grown"] == 0


def test_rank_correlation_is_that_of_ranks():
    x = np.array([0.3, 0.1, 0.2, np.nan])

    def correlation(one, other):
        rows = enumerate(zip(one, other, strict=True))
        names = ("name", "sharpness_after", "cosine_after")
        records = [dict(zip(names, (f"L0H{k}", a, b), strict=True)) for k, (a, b) in rows]
        whole = tuple(dict.fromkeys(inspection.CHANGE_FIELDS, 0.0) | record for record in records)
        return inspection.Change("before", "after", CONFIG, whole).correlation()

    assert correlation(x, np.exp(10 * x)) == pytest.approx(1.0)
    assert correlation(x, -x) == pytest.approx(-1.0)
    assert correlation([1, 1, 2, 2], [1, 2, 1, 2]) == pytest.approx(0.0)
    assert np.isnan(correlation([1, 1, 1], [1, 2, 3]))
    assert np.isnan(correlation([1.0, 2.0], [1.0, 2.0]))

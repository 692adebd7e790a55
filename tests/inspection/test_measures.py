"""Measures on heads that are what they are by construction."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import attsvm
from attsvm.errors import BadTokens, TooLarge, Unsupported
from attsvm.inspection import FIELDS, InspectionConfig, measures
from attsvm.inspection.measures import (
    NEEDED,
    agreement_of,
    cross_entropy,
    held_out,
    kind_of,
    mean_difference,
    measure,
    norm_ratio_of,
    null_ratios,
    rotate,
    rule_for,
    sharpness_of,
    spectrum,
    split,
    svm_fit,
)
from tests.inspection.built import (
    content_view,
    head_view,
    max_margin_view,
    place_view,
    random_labels,
    random_view,
    sink_view,
    view_of,
)

SMALL = InspectionConfig(fit=30, test=60, draws=2, nuclear_draws=1, attacks=10)


def record(view, config=SMALL):
    return measure(view, config)[0]


def measured(view, *, fit=60, test=90):
    return held_out(*split(view, fit=fit, test=test, seed=0))


@pytest.mark.parametrize(
    ("view", "kind", "rule"),
    [
        (sink_view(), "sink", "first special"),
        (place_view(), "positional", "1 before"),
        (place_view(before=3), "positional", "3 before"),
        (content_view(), "content", None),
        (random_labels(), "diffuse", None),
    ],
    ids=["sink", "before", "farther", "content", "random"],
)
def test_a_head_is_called_what_it_is(view, kind, rule):
    found = measured(view, fit=min(100, len(view.queries) // 2))
    assert kind_of(found) == kind
    if rule is not None:
        assert found["rule"] == rule
        assert found["rule_agreement"] == 1.0
    if kind == "sink":
        assert found["mean_query_agreement"] == 1.0
    if kind == "content":
        assert found["mean_query_agreement"] < 0.5
        assert min(found["svm_agreement"], found["soft_cross_entropy_agreement"]) > 0.95
        assert found["rule_agreement"] < 0.4
    if kind == "diffuse":
        assert found["svm_agreement"] < 0.4  # chance is 1 in 8


def agreed(place, rule, svm):
    rules = {"rule_place": place, "rule_agreement": rule}
    return rules | {"svm_agreement": svm, "lift": svm - rule, "tied": 0.0}


@pytest.mark.parametrize(
    ("found", "without", "kind"),
    [
        (agreed("sink", 0.4, 0.6), agreed("positional", 0.1, 0.6), "content"),
        # A mixture of a sink and a place: the rest is explained by a rule once the sink is gone.
        (agreed("sink", 0.4, 0.6), agreed("positional", 0.7, 0.6), "positional"),
        (agreed("sink", 0.4, 0.6), agreed("positional", 0.2, 0.4), "diffuse"),
        (agreed("sink", 0.8, 0.85), agreed("positional", 0.1, 0.7), "sink"),
        (agreed("sink", 0.6, 0.75), agreed("positional", 0.1, 0.7), "content"),
        (agreed("positional", 0.9, np.nan), None, "positional"),
        (agreed("sink", 0.3, np.nan), None, "diffuse"),
    ],
)
def test_kinds_follow_their_thresholds(found, without, kind):
    assert kind_of(found, without) == kind


def test_a_head_whose_logits_are_all_equal_is_diffuse():
    """Its first key is the largest by convention alone: no sink."""
    view = sink_view()
    found = measured(replace(view, query_factor=0 * view.query_factor))
    assert found["tied"] == 1.0
    assert kind_of(found) == "diffuse"
    assert measured(view)["tied"] == 0.0
    view = content_view()
    names = ("keys", "values", "valid", "ids", "special")
    twice = {name: np.repeat(getattr(view, name), 2, axis=1) for name in names}
    found = measured(replace(view, **twice))
    assert found["tied"] == 0.0  # keys with the same features count as one
    assert kind_of(found) == "content"
    assert found["svm_agreement"] > 0.9 and found["separable"]


def test_itself_and_the_key_after_are_rules_too():
    view = place_view()
    shifted = replace(view, positions=view.positions - 1)
    own = shifted, shifted.chosen()
    found = rule_for(own, own)
    assert (found["rule"], found["rule_place"]) == ("itself", "positional")
    farther = replace(view, positions=view.positions - 2)
    assert rule_for((farther, farther.chosen()), (view, view.chosen()))["rule"] == "1 after"


def test_sharpness_is_that_of_attention():
    keys = np.array([[[np.log(3.0)], [0.0]], [[np.log(99.0)], [0.0]]])
    view = view_of(keys, np.ones((2, 1)), [[1.0]], special=np.array([[1, 0], [0, 1]], dtype=bool))
    found = sharpness_of(view)
    assert found["sharpness"] == pytest.approx((0.75 + 0.99) / 2)
    assert found["saturated"] == 0.5
    assert found["special_attention"] == pytest.approx((0.75 + 0.01) / 2)
    assert found["chance"] == 0.5


def test_a_max_margin_head_has_norm_ratio_one():
    found = norm_ratio_of(max_margin_view())
    assert found.lower > 0.985
    assert found.upper == pytest.approx(1.0, abs=1e-6)


def test_a_part_that_no_query_sees_is_waste():
    view = max_margin_view()
    wide = np.pad(view.queries, ((0, 0), (0, 1)))  # the last feature is 0 in all queries
    factor = np.pad(view.query_factor, ((0, 0), (0, 1)))
    factor[0, -1] = np.sqrt((view.W**2).sum() / (view.key_factor[0] ** 2).sum())
    other = replace(view, queries=wide, query_factor=factor)
    found = norm_ratio_of(other)
    assert found.upper == pytest.approx(1 / np.sqrt(2), rel=1e-2)


def test_norm_ratio_is_certified_by_a_feasible_matrix_and_a_bound():
    view = random_view(scale=5.0)
    found = norm_ratio_of(view)
    assert 0 < found.lower <= found.upper <= 1
    assert found.upper <= found.lower * 1.0101
    logits = np.sort(view.logits(), axis=1)
    keep = np.isfinite(logits[:, -2])
    gap = (logits[:, -1] - logits[:, -2])[keep]
    tokens = attsvm.Tokens(view.keys[keep], queries=view.queries[keep], mask=view.valid[keep])
    exact = attsvm.solve(attsvm.Problem.of(tokens, view.chosen()[keep], b=gap)).require()
    share = exact.upper / np.linalg.norm(view.W)
    assert found.lower <= share * 1.000001
    assert found.upper >= share * 0.999999


def test_ties_are_left_out_of_the_norm_ratio():
    view = random_view(n=30, scale=5.0)
    keys = view.keys.copy()
    keys[0] = keys[0, 0]  # all keys of one query alike
    found = norm_ratio_of(replace(view, keys=keys))
    assert found.queries == 29
    alike = replace(view, keys=np.broadcast_to(keys[:, :1], keys.shape).copy())
    assert np.isnan(norm_ratio_of(alike).upper)


@pytest.mark.parametrize("rank", [4, 3])
def test_nulls_have_the_spectrum_and_rotations_the_subspaces(rank):
    view, rng = random_view(h=4), np.random.default_rng(0)
    view.key_factor[3] = view.key_factor[3 if rank == 4 else 2]
    U, S, Vt = np.linalg.svd(view.W)
    for null in (spectrum(view, rng), rotate(view, rng)):
        found = np.linalg.svd(null.W, compute_uv=False)
        np.testing.assert_allclose(found[:4], S[:4], rtol=1e-10, atol=1e-10)
        assert not np.allclose(null.W, view.W)
    U, V = U[:, :rank], Vt[:rank].T
    inside = rotate(view, rng).W
    np.testing.assert_allclose(U @ (U.T @ inside @ V) @ V.T, inside, atol=1e-10)
    outside = spectrum(view, rng).W
    assert np.linalg.norm(U.T @ outside @ V) < 0.8 * np.linalg.norm(outside)


@pytest.mark.parametrize("norm", ["frobenius", "nuclear"])
def test_norm_ratio_is_certified_where_the_factors_all_but_cancel(norm):
    """W = k (q + q')ᵀ with q' near −q, one query, one rival: the norm ratio has a closed form."""
    draw = np.random.default_rng(0)
    for _ in range(10):
        keys, z, k, q = (draw.normal(size=shape) for shape in ((1, 2, 3), (1, 3), 3, 3))
        other = -q * (1 + 1e-12)
        view = replace(
            view_of(keys, z, np.eye(3)),
            key_factor=np.array([k, k]),
            query_factor=np.array([q, other]),
        )
        exact = [float(Fraction(x) + Fraction(y)) for x, y in zip(q, other, strict=True)]
        truth = abs(cosine(keys[0, 0] - keys[0, 1], k) * cosine(z[0], exact))
        found = norm_ratio_of(view, norm)
        assert found.queries == 1
        assert found.lower * (1 - 1e-12) <= truth <= found.upper * (1 + 1e-12)


def cosine(x, y):
    return np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y)


def test_a_trained_head_is_of_a_higher_norm_ratio_than_its_nulls():
    view = content_view(n=60)
    nulls = null_ratios(view, draws=3, seed=0)
    assert set(nulls) == {"spectrum", "rotated"}
    assert all(norm_ratio_of(view).upper > values.max() for values in nulls.values())


def test_a_selection_that_no_matrix_makes_is_fitted_softly():
    rng = np.random.default_rng(0)
    keys, queries = rng.normal(size=(30, 3, 2)), np.ones((30, 1))
    view = view_of(keys, np.pad(queries, ((0, 0), (0, 1))), np.eye(2))
    labels = rng.integers(0, 3, 30)
    fit = svm_fit(view, labels)
    assert fit.soft and np.isfinite(fit.W).all()
    assert agreement_of(view, fit.W, labels) > 1 / 3


def test_cross_entropy_is_stationary():
    view = content_view(n=40)
    targets = np.eye(view.valid.shape[1])[view.chosen()]
    W = cross_entropy(view, targets)
    assert agreement_of(view, W, view.chosen()) == 1.0
    # The penalty's slope balances the loss's: both in units in which rows have length one.
    keys = view.keys - view.keys.mean(axis=1, keepdims=True)
    size = (keys**2).sum(axis=2).mean() * (view.queries**2).sum(axis=1).mean()
    logits = np.einsum("ntd,nd->nt", keys, view.queries @ W.T)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    slope = np.einsum("nt,ntd,nq->dq", p - targets, keys, view.queries)
    left = W * size + 10.0 * slope
    assert np.linalg.norm(left) < 0.02 * np.linalg.norm(10.0 * slope)


def test_the_mean_difference_is_the_first_gradient_step():
    view = random_view(n=12)
    targets = np.eye(view.valid.shape[1])[view.chosen()]
    W = mean_difference(view, targets)
    chosen = view.keys[np.arange(12), view.chosen()]
    mean = np.array(
        [row[mask].mean(axis=0) for row, mask in zip(view.keys, view.valid, strict=True)]
    )
    np.testing.assert_allclose(W, (chosen - mean).T @ view.queries / 12, atol=1e-12)


def test_a_record_has_every_field_and_no_other():
    found = record(random_view(n=90, scale=4.0))
    assert list(found) == list(FIELDS)
    assert found["fitted"] == 30
    assert found["violations"] == 0
    for name in ("sharpness", "norm_ratio", "nuclear_norm_ratio", "svm_agreement", "content_lift"):
        assert np.isfinite(found[name]), name
    assert (
        found["norm_ratio_rotated_low"]
        <= found["norm_ratio_rotated"]
        <= found["norm_ratio_rotated_high"]
    )
    assert found["nuclear_norm_ratio_lower"] <= found["nuclear_norm_ratio"] <= 1


def test_heads_in_head_space_are_fitted_there():
    found = record(head_view(n=60))
    assert found["space"] == "head"
    assert 0 < found["norm_ratio_lower"] <= found["norm_ratio"] <= 1
    assert np.isfinite(found["svm_agreement"])
    assert np.isnan(found["int8_safe"])
    assert found["violations"] == 0 and found["attacks"] > 0


def test_a_head_without_content_or_without_logits_is_still_recorded():
    view = random_view(n=30)
    found = record(replace(view, special=view.valid))  # all keys are special
    assert found["content_queries"] == 0
    assert found["content_kind"] is None
    assert np.isfinite(found["norm_ratio"])
    found = record(replace(view, query_factor=0 * view.query_factor))
    assert found["tied"] == 30
    assert np.isnan(found["norm_ratio"])
    assert found["evictable_margins"] == 0.0
    assert found["key_radius_share"] == found["int8_safe"] == 0.0


def test_queries_with_one_key_choose_nothing():
    view = random_view(n=30)
    valid = view.valid.copy()
    valid[:10, 1:] = False
    found = record(replace(view, valid=valid))
    assert found["queries"] == 20
    valid[:, 1:] = False
    with pytest.raises(BadTokens, match="no query has two keys"):
        record(replace(view, valid=valid))


@pytest.mark.parametrize("count", [1, 2, NEEDED - 1])
def test_with_few_queries_what_can_be_said_is_said(count):
    found = record(random_view(n=NEEDED, scale=4.0).subset(np.arange(count)))
    assert list(found) == list(FIELDS)
    assert found["kind"] is None and np.isnan(found["norm_ratio"])
    assert found["attacks"] > 0 and found["violations"] == 0
    assert np.isfinite([found[name] for name in ("sharpness", "evictable", "key_radius")]).all()


def test_a_head_beyond_memory_is_refused_beforehand(monkeypatch):
    monkeypatch.setattr("attsvm._utils.memory.available", lambda: 1e4)
    with pytest.raises(TooLarge, match="fewer queries or shorter texts"):
        record(random_view(n=60))


def test_the_same_seed_gives_the_same_record():
    view = random_view(n=60)
    config = InspectionConfig(fit=20, test=40, draws=1, nuclear_draws=-1, attacks=5)
    one, two = record(view, config), record(view, config)
    for name in FIELDS:
        if name != "seconds" and one[name] == one[name]:
            assert one[name] == two[name], name


@pytest.mark.parametrize("wrong", [{"fit": 0}, {"test": 1}, {"draws": -1}, {"share": 1.0}])
def test_a_plan_that_cannot_be_followed_is_refused(wrong):
    with pytest.raises(Unsupported, match=next(iter(wrong))):
        InspectionConfig(**wrong)


def test_choices_that_go_in_a_circle_are_seen_without_a_solve():
    """a over b, b over c, c over a for one query: no W; of different queries, or in order, one."""
    rng = np.random.default_rng(0)
    a, b, c, other = rng.normal(size=(4, 5))
    keys = np.array([[a, b, other], [b, c, other], [c, a, other]])
    same, unlike = np.tile(rng.normal(size=5), (3, 1)), rng.normal(size=(3, 5))
    first, ordered = np.array([0, 0, 0]), np.array([0, 0, 1])
    view = view_of(keys, same, np.eye(5))
    for queries, chosen, round_ in (
        (same, first, True),
        (unlike, first, False),
        (same, ordered, False),
    ):
        part = replace(view, queries=queries)
        assert measures.circular(part, chosen) is round_
        rows = attsvm.Problem.of(measures.tokens_of(part, chosen), chosen)
        assert (attsvm.solve(rows).status == "infeasible") is round_
    assert measures.svm_fit(view, first).soft
    hard = measures.svm_fit(view, ordered)
    assert not hard.soft

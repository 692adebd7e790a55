"""Guarantees of a head: never broken just inside, always broken just outside, never vacuous."""

from dataclasses import replace

import numpy as np
import pytest

from attsvm.errors import BadTokens
from attsvm.inspection import InspectionConfig, attacks
from attsvm.inspection.guarantees import (
    cache_of,
    eviction_of,
    guarantees,
    kept_under,
    quantized,
    rounded_rows,
    stability_of,
)
from attsvm.inspection.view import LayerOutput, margins_of
from tests.inspection.built import content_view, head_view, random_view, sink_view, view_of

VIEWS = {
    "random": random_view,
    "sharp": lambda: random_view(scale=40.0, seed=1),
    "flat": lambda: random_view(scale=1e-3, seed=2),
    "head space": head_view,
    "sink": sink_view,
    "content": content_view,
    "huge": lambda: scaled(random_view(seed=3), 1e60),
    "tiny": lambda: scaled(random_view(seed=4), 1e-60),
    "single": lambda: single(random_view(seed=5)),
}


def scaled(view, factor):
    """The same choices in other units."""
    return replace(view, keys=view.keys * factor, key_factor=view.key_factor / factor)


def single(view):
    """The same head with keys in single precision."""
    return replace(view, keys=view.keys.astype(np.float32))


@pytest.fixture(params=VIEWS)
def view(request):
    return VIEWS[request.param]()


@pytest.mark.parametrize(
    ("part", "move"), [("keys", attacks.move_keys), ("query", attacks.move_query)]
)
def test_keys_or_the_query_may_move_within_the_radius_and_no_farther(part, move, view):
    for one in (view.subset([i]) for i in range(12)):
        radius = getattr(stability_of(one, margins_of(one)), part)
        assert radius > 0
        if part == "query" and np.isinf(radius):  # a logit that does not depend on the query
            continue
        assert move(one, radius).broken == 0
        assert move(one, radius, factor=1.0001).broken > 0


def test_a_constant_at_the_query_s_end_does_not_count_as_moving():
    view = random_view()
    margins = margins_of(view)
    wide = {"keys": ((0, 0), (0, 0), (0, 1)), "key_factor": ((0, 0), (0, 1))}
    plain = replace(view, **{name: np.pad(getattr(view, name), by) for name, by in wide.items()})
    moving = stability_of(plain, margins_of(plain)).query
    assert (moving < stability_of(view, margins).query).all()


def test_dropped_keys_keep_the_output_and_eight_bits_what_is_safe(view):
    margins = margins_of(view)
    coarse = quantized(view)
    safe = kept_under(view, margins, coarse)
    assert attacks.round_weights(view, coarse, safe).broken == 0
    found = eviction_of(view, margins)
    for dropped in (found.known, found.bound):
        assert attacks.drop_keys(view, dropped, found.order, share=0.01).broken == 0
    assert (found.bound <= found.known).all()
    assert (found.known < found.keys).all()


def test_one_more_key_would_be_too_many():
    view = random_view(scale=6.0)
    found = eviction_of(view, margins_of(view))
    more = np.minimum(found.known + 1, found.keys - 1)
    room = more > found.known
    done = attacks.drop_keys(view, np.where(room, more, 0), found.order, share=0.01)
    assert found.known.sum() > 0
    assert done.broken == done.tried == room.sum() > 0


def test_an_output_of_zero_lets_nothing_go():
    view = random_view(scale=30.0)
    view = replace(view, values=0 * view.values)
    found = eviction_of(view, margins_of(view))
    assert not found.known.any()
    assert not found.bound.any()


def test_rounded_rows_have_255_levels():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(5, 4000)) * 10.0 ** np.arange(5)[:, None]
    coarse = rounded_rows(factor)
    assert max(len(np.unique(row)) for row in coarse) <= 255
    assert (np.abs(coarse - factor).max(axis=1) <= np.abs(factor).max(axis=1) / 254 * 1.001).all()
    assert not rounded_rows(np.zeros((2, 3))).any()


def changed(view, row, factor):
    """The head with W + E, E of rank one against the choice of one query, at factor · the limit."""
    margins = margins_of(view)
    a, x, z = margins.chosen[row], view.keys[row], view.queries[row]
    apart = x[a] - x
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(
            np.isfinite(margins.least[row]),
            margins.least[row] / np.linalg.norm(apart, axis=1),
            np.inf,
        )
    t = room.argmin()
    step = -factor * room[t] * apart[t] / np.linalg.norm(apart[t])
    return replace(
        view,
        key_factor=np.vstack([view.key_factor, step]),
        query_factor=np.vstack([view.query_factor, z / (z @ z)]),
    )


def test_weights_may_change_up_to_the_limit_and_no_farther():
    view = random_view(seed=7)
    margins = margins_of(view)
    for row in range(10):
        for factor, kept in ((0.9999, True), (1.0001, False)):
            other = changed(view, row, factor)
            assert kept_under(view, margins, other)[row] == kept
            assert (other.chosen()[row] == margins.chosen[row]) == kept


def test_forged_guarantees_are_caught():
    view = random_view(scale=6.0)
    margins = margins_of(view)
    radii, n = stability_of(view, margins), len(view.queries)
    assert attacks.move_keys(view, 1.5 * radii.keys).broken == n
    assert attacks.move_query(view, 1.5 * radii.query).broken >= n
    found = eviction_of(view, margins)
    assert attacks.drop_keys(view, found.keys - 1, found.order, share=0.01).broken > 0
    coarse = replace(view, key_factor=np.sign(view.key_factor))
    assert attacks.round_weights(view, coarse, np.ones(n, dtype=bool)).broken > 0


def test_ties_are_guaranteed_nothing():
    view = random_view(n=6, T=5)
    keys = view.keys.copy()
    at = view.chosen()
    other = np.where(at == 0, 1, 0)
    keys[np.arange(6), other] = keys[np.arange(6), at]  # the chosen key twice
    view = replace(view, keys=keys)
    margins = margins_of(view)
    assert margins.tied.all()
    radii = stability_of(view, margins)
    assert not radii.keys.any()
    assert not radii.query.any()
    assert not kept_under(view, margins, quantized(view)).any()


def test_margins_within_rounding_are_ties():
    keys = np.array([[[1.0, 0.0], [np.nextafter(1.0, 0.0), 0.0], [0.0, 1.0]]])
    view = view_of(keys, np.array([[1.0, 0.3]]), np.array([[0.1, 0.7], [0.0, -1.0]]))
    assert margins_of(view).tied.all()


def test_a_single_key_cannot_lose():
    view = random_view(n=4, T=4)
    valid = np.zeros_like(view.valid)
    valid[:, 0] = True
    view = replace(view, valid=valid)
    margins = margins_of(view)
    assert np.isinf(stability_of(view, margins).keys).all()
    assert not eviction_of(view, margins).known.any()
    assert kept_under(view, margins, quantized(view)).all()


@pytest.mark.parametrize("name", ["keys", "queries", "key_factor", "values"])
def test_numbers_that_are_not_finite_are_refused(name):
    view = random_view(n=5)
    array = getattr(view, name).copy()
    array.flat[3 % array.size] = np.nan
    with pytest.raises(BadTokens, match=f"L0H0: {name}"):
        margins_of(replace(view, **{name: array}))


def test_all_guarantees_at_once(view):
    found = guarantees(view, InspectionConfig(attacks=30))
    assert found.fields["violations"] == 0
    assert found.fields["attacks"] > 0
    for name in ("evictable", "key_radius_share", "evictable_queries"):
        assert 0 <= found.fields[name] <= 1
    assert np.isnan(found.fields["int8_safe"]) == (view.space == "head")
    assert not found.fields["int8_safe"] > found.fields["int8_same"]


def odd_view(seed):
    """A head of random sizes and scales, with ties, cancellation, or values near nothing."""
    rng = np.random.default_rng(seed)
    d, h, T = (int(rng.integers(*ends)) for ends in ((1, 9), (1, 5), (3, 9)))
    view = random_view(12, T, d, seed=seed, scale=10.0 ** rng.uniform(-6, 4), h=h)
    odd = {
        0: {"keys": np.round(view.keys)},
        1: {"keys": view.keys * 10.0 ** rng.uniform(-60, 60)},
        2: {"keys": view.keys + 1e6},
        3: {"values": view.values * 1e-8},
        4: {"values": view.values + 1e6},
        5: {"keys": view.keys.astype(np.float32)},
        6: {"query_factor": 10.0 ** rng.uniform(-3, 3) * view.query_factor},
    }
    return replace(view, **odd[seed % len(odd)])


@pytest.mark.parametrize("seed", range(42))
def test_odd_heads_withstand_every_attack(seed):
    view = odd_view(seed) if seed % 6 else head_view(12, seed=seed)
    found = guarantees(view, InspectionConfig(attacks=12)).fields
    assert found["violations"] == 0
    assert not found["int8_safe"] > found["int8_same"]


def faint(**parts):
    """Two keys, (1, 0) and (0, 1), and two queries: (1, 0), and one whose squares underflow."""
    keys = np.repeat(np.eye(2)[None], 2, axis=0)
    view = view_of(keys, np.array([[1.0, 0.0], [1e-170, 0.0]]), np.diag([1.0, 0.0]))
    factor = np.array([[1.0, 0.0]])
    return replace(view, **({"key_factor": factor, "query_factor": factor} | parts))


def test_squares_below_the_normal_floats_leave_no_endless_radius_and_no_safe_weights():
    view = faint()
    margins = margins_of(view)
    assert not margins.tied.any()
    assert stability_of(view, margins).keys[0] == pytest.approx(0.5)
    assert stability_of(view, margins).keys[1] <= 0.5
    view = faint(key_factor=np.array([[1.0, 0.999]]))  # eight bits make it (1, 1): a tie
    assert not kept_under(view, margins_of(view), quantized(view)).any()


def test_values_whose_squares_underflow_let_nothing_go():
    keys = np.array([[[2.0, 1.7], [0.0, 3.2], [0.0, 0.0]]])
    values = np.array([[[1.7e-162], [3.2e-162], [1.0]]])
    view = view_of(keys, np.array([[1.0, 0.0]]), np.diag([1.0, 0.0]), values=values)
    tiny = replace(view, valid=np.array([[True, True, False]]))
    found = eviction_of(tiny, margins_of(tiny))
    assert not found.known.any()
    assert not found.bound.any()


def test_factors_in_single_precision_are_not_multiplied_in_it():
    view = random_view()
    names = ("key_factor", "query_factor")
    single = replace(view, **{name: getattr(view, name).astype(np.float32) for name in names})
    double = replace(single, **{name: getattr(single, name).astype(float) for name in names})
    radii, truth = (stability_of(one, margins_of(one)) for one in (single, double))
    np.testing.assert_allclose(radii.keys, truth.keys, rtol=1e-12)
    np.testing.assert_allclose(radii.query, truth.query, rtol=1e-12)


def test_endless_radii_are_attacked_too():
    view = random_view(n=10, T=4)
    endless = np.full(10, np.inf)
    assert attacks.move_keys(view, endless).broken > 0
    assert attacks.move_query(view, endless).broken > 0


@pytest.mark.parametrize("size", [1e20, 1e70])
def test_logits_beyond_measure_let_nothing_go(size):
    view = random_view(n=10, T=4)
    view = replace(view, keys=view.keys * size, query_factor=view.query_factor * size)
    found = guarantees(view, InspectionConfig(attacks=10))
    assert found.fields["violations"] == 0
    assert not found.queries["evictable_margins"].any()


def test_evictable_keys_are_a_set_by_the_row_and_every_part_of_it_by_margins():
    """Two keys whose values make up for each other may go together, and the lower one not alone."""
    keys = np.array([[[0.0, 0.0], [-3.0, 5.0], [-2.9, -4.6]]])
    values = keys * [0.0, 1.0] + [10.0, 0.0]
    view = view_of(keys, np.array([[1.0, 0.0]]), np.eye(2), values=values)
    found = eviction_of(view, margins_of(view))
    assert (found.known[0], found.order[0, :2].tolist()) == (2, [1, 2])
    assert attacks.drop_keys(view, np.array([2]), found.order, share=0.01).broken == 0
    assert attacks.drop_keys(view, np.array([1]), found.order, share=0.01).broken == 1
    assert found.bound[0] == 0


def test_what_leaves_a_head_moves_its_layer_by_no_more_than_is_said(view):
    found = eviction_of(view, margins_of(view))
    said = attacks.layer_moves(view, found.known, found.order, found.layer)
    if view.layer_output is None:
        assert np.isnan(found.layer).all() and said.tried == 0
        return
    assert (said.tried, said.broken) == (int((found.known > 0).sum()), 0)
    forged = attacks.layer_moves(view, found.known, found.order, 0.9 * found.layer)
    assert (forged.broken > 0) == (said.tried > 0)


def later_queries(seed=0, *, scale=6.0):
    """Two texts of eight tokens, the last four of each its queries, causal."""
    rows, places = np.repeat([0, 1], 4), np.tile(np.arange(4, 8), 2)
    view = random_view(8, 8, 6, seed=seed, scale=scale)
    valid = np.arange(8) <= places[:, None]
    mixed = LayerOutput(view.layer_output.factor, view.layer_output.output)
    keys, values = view.keys[rows * 4], view.values[rows * 4]
    view = replace(view, keys=keys, values=values, valid=valid, positions=places)
    return replace(view, layer_output=mixed), rows, np.full(8, 4)


@pytest.mark.parametrize("seed", range(4))
def test_a_cache_drops_what_no_later_query_needs(seed):
    """By brute force: without one more key in the same order some later query moves too far."""
    view, rows, first = later_queries(seed)
    (fields,) = cache_of([view], rows, first, InspectionConfig())
    assert (fields["violations"], fields["cache_texts"]) == (0, 2)
    attention, shares = view.attention(), []
    for text in (0, 1):
        mine = rows == text
        order = np.argsort(np.where(np.arange(8) < 4, attention[mine].max(axis=0), np.inf))
        fine = 0
        for count in range(1, 5):
            left = np.where(np.isin(np.arange(8), order[:count]), 0.0, attention[mine])
            left /= left.sum(axis=1, keepdims=True)
            whole = np.einsum("nt,nth->nh", attention[mine], view.values[mine])
            less = np.einsum("nt,nth->nh", left, view.values[mine])
            moved = np.linalg.norm(whole - less, axis=1) / np.linalg.norm(whole, axis=1)
            fine = count if (moved < 0.01).all() else fine
        shares.append(fine / 4)
    assert fields["cache_evictable"] == np.mean(shares)


def test_heads_that_share_keys_drop_what_neither_needs():
    views = [later_queries(seed)[0] for seed in (1, 2)]
    _, rows, first = later_queries()
    alone = [cache_of([view], rows, first, InspectionConfig())[0] for view in views]
    both = cache_of(views, rows, first, InspectionConfig())
    assert both[0]["cache_evictable"] == both[1]["cache_evictable"]
    assert both[0]["violations"] == both[1]["attacks"] == 0
    assert both[0]["cache_evictable"] <= min(one["cache_evictable"] for one in alone)

"""A View: logits against plain loops, what is not valid, parts of it, and what is refused."""

import numpy as np
import pytest

import attsvm
from attsvm.inspection import View
from tests.inspection import built
from tests.tolerances import EXACTLY, ROUNDING


def small_view(seed=0, **parts) -> View:
    return built.random_view(6, 5, 4, seed=seed, **({"layer": 1} | parts))


def plain_logits(view: View) -> np.ndarray:
    """The logits by loops over queries and keys."""
    n, T, _ = view.keys.shape
    out = np.full((n, T), -np.inf)
    for i in range(n):
        q = view.query_factor @ view.queries[i]
        for t in range(T):
            k = view.key_factor @ view.keys[i, t]
            if view.valid[i, t]:
                out[i, t] = k @ q
    return out


@pytest.mark.parametrize("bias", [True, False])
def test_logits_are_those_of_loops(bias):
    view = small_view(3, bias=bias)
    np.testing.assert_allclose(view.logits(), plain_logits(view), rtol=ROUNDING, atol=ROUNDING)
    shares = view.attention()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=ROUNDING)
    assert not shares[~view.valid].any()
    assert view.valid[np.arange(6), view.chosen()].all()
    assert (shares.max(axis=1) == shares[np.arange(6), view.chosen()]).all()


def test_one_matrix_gives_the_logits_and_they_are_computed_once():
    view = small_view(4)
    logits = np.einsum("ntd,de,ne->nt", view.keys, view.W, view.queries)
    np.testing.assert_allclose(logits[view.valid], view.logits()[view.valid], rtol=EXACTLY)
    assert view.logits() is view.logits()
    with pytest.raises(ValueError, match="read-only"):
        view.logits()[0, 0] = 1.0


def test_float32_keys_stay_and_large_logits_do_not_overflow():
    view = small_view()
    loud = small_view(
        keys=(view.keys * 1e3).astype(np.float32), query_factor=view.query_factor * 1e9
    )
    assert loud.keys.dtype == np.float32
    np.testing.assert_allclose(loud.attention().sum(axis=1), 1.0)


def test_subset_takes_numbers_and_marks():
    view = small_view()
    part = view.subset([4, 1])
    np.testing.assert_array_equal(part.logits(), view.logits()[[4, 1]])
    assert part.texts == (view.texts[4], view.texts[1])
    np.testing.assert_array_equal(part.layer_output.output, view.layer_output.output[[4, 1]])
    np.testing.assert_array_equal(view.subset(np.arange(6) == 2).ids, view.ids[[2]])


def test_a_subset_of_nothing_is_refused():
    with pytest.raises(attsvm.BadTokens, match="names no query"):
        small_view().subset([])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"keys": np.zeros((0, 5, 4))}, "keys has shape"),
        ({"queries": np.zeros((6, 3))}, r"queries \(6, 3\)"),
        ({"values": np.zeros((6, 4, 2))}, "values has shape"),
        ({"key_factor": np.zeros((2, 3))}, "key_factor has shape"),
        ({"valid": np.zeros((6, 5), dtype=bool)}, "query 0 may attend to no key"),
        ({"texts": (("a",),)}, "1 texts for 6 queries"),
        ({"valid": np.ones((6, 5), dtype=np.int64)}, "valid has type int64"),
        ({"special": np.ones((6, 5), dtype=np.int64)}, "special has type int64"),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(attsvm.BadTokens, match=message):
        small_view(**wrong)


def test_a_view_shows_itself_and_escapes_tokens():
    view = small_view(texts=tuple(("<b>",) * 5 for _ in range(6)))
    assert "6 queries over 5 keys" in repr(view)
    assert "<b>" not in view._repr_html_().replace("<b>View</b>", "")

"""Tokens: what they take, what they refuse, and what they say about it."""

import numpy as np
import pytest

from attsvm import BadTokens, Problem, Selection, Tokens, solve
from attsvm._utils.arrays import LARGEST, SMALLEST
from tests.tolerances import ROUNDING

X = np.random.default_rng(3).standard_normal((2, 3, 7))
Z = np.random.default_rng(4).standard_normal((2, 2))
ALPHA = [0, 2]


def least(tokens: Tokens) -> float:
    """The least Frobenius norm at which the first input keeps token 0, the second token 2."""
    return solve(Problem.of(tokens, Selection.of(tokens, ALPHA))).require().upper


def read_only(array):
    out = array.copy()
    out.flags.writeable = False
    return out


def reversed_view(array):
    return array[..., ::-1].copy()[..., ::-1]


SAME = {
    "lists": lambda a: a.tolist(),
    "tuples": lambda a: tuple(map(tuple, a.tolist())),
    "Fortran order": np.asfortranarray,
    "read-only": read_only,
    "reversed view": reversed_view,
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "big-endian": lambda a: a.astype(">f8"),
    "long double": lambda a: a.astype(np.longdouble),
}


@pytest.mark.parametrize("form", SAME)
def test_the_same_numbers_in_another_form(form):
    make = SAME[form]
    expected = least(Tokens(X, queries=Z))
    assert least(Tokens(make(X), queries=make(Z))) == pytest.approx(expected, rel=ROUNDING)
    assert least(Tokens(X, keys=make(X), queries=make(Z))) == pytest.approx(expected, rel=ROUNDING)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8, np.int64, np.uint8, bool])
def test_other_types_are_taken_at_their_value(kind):
    values = (8 * X).astype(kind)
    tokens = Tokens(values)
    assert tokens.X.dtype == (np.float32 if kind is np.float32 else np.float64)
    assert np.array_equal(tokens.X, values.astype(np.float64))
    # float32 stays as it is, but is computed with in float64.
    assert tokens.scores(np.ones(7)).dtype == np.float64
    assert tokens.scores(np.ones(7)) == pytest.approx(values.astype(float).sum(axis=2))


def test_a_memory_map_is_kept(tmp_path):
    for kind in (np.float64, np.float32):
        map_ = np.memmap(tmp_path / "X", dtype=kind, mode="w+", shape=X.shape)
        map_[:] = X
        tokens = Tokens(map_)
        assert np.shares_memory(tokens.X, map_) and np.shares_memory(tokens.keys, map_)
        expected = least(Tokens(X.astype(kind).astype(float)))
        assert least(tokens) == pytest.approx(expected, rel=ROUNDING)
        problem = Problem.of(tokens, Selection.of(tokens, ALPHA))
        assert np.shares_memory(problem.keys, map_)


@pytest.mark.parametrize(
    "X",
    [
        1.0, "text", None, {}, [], [[[]]], object(), [[[1.0], [1.0, 2.0]]], [[["a"]]], [[[1j]]],
        [[[10**400]]], np.zeros((2, 3)), np.zeros((0, 3, 2)), np.full((2, 3, 2), None),
        np.ma.masked_array(np.ones((2, 3, 2)), mask=True),
    ],
)  # fmt: skip
def test_no_tokens(X):
    with pytest.raises(BadTokens, match="X "):
        Tokens(X)
    with pytest.raises(BadTokens, match="X "):
        Tokens.sequence(X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.01 * LARGEST, -1.01 * LARGEST])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["X", "keys"])
def test_the_bad_entry_is_named(value, order, name):
    bad = np.array(X, order=order)
    bad[1, 0, 5] = value
    arrays = {"X": X, name: bad}
    with pytest.raises(BadTokens, match=rf"^{name}\[1, 0, 5\] is {value}".replace("+", r"\+")):
        Tokens(**arrays)


@pytest.mark.parametrize("scale", [0.9 * LARGEST, 1e70, 1e-70])
def test_extreme_scales_are_solved(scale):
    unit = X / np.abs(X).max()
    expected = least(Tokens(unit)) / scale
    assert least(Tokens(unit * scale)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("scale", [1e-80, 1e-200, 1e-310])
def test_what_would_underflow_is_refused(scale):
    """Squares of these entries are zero: rows would pass for zero, and prove what is false."""
    with pytest.raises(BadTokens, match=f"X has no entry above {SMALLEST:g}: multiply"):
        Tokens(X * scale)
    with pytest.raises(BadTokens, match="queries has no entry above"):
        Tokens(X, queries=Z * scale)
    assert Tokens(np.zeros_like(X), keys=X).n == 2


BAD = {
    "keys": [X[:1], X[0], X[:, :2], X[:, :, :0], "X", X + 1j],
    "queries": [
        1.0, "middle", np.ones((3, 2)), np.ones((2, 0)), [[1.0], [np.nan]], [[1.0], [1.0, 2.0]],
        [["a"], ["b"]],
    ],
    "labels": [1, [1], [0, 1], [1, np.nan], ["a", "b"], [[1], [1]]],
    "mask": [
        1, [True, True], np.ones((3, 2)), [[1, 1, 1], [1]], np.full((2, 3), 0.5),
        np.full((2, 3), None), [[1, 0, 0], [0, 0, 0]],
    ],
    "source": ["a", [0.5, 0], [0, 2], [-1, 0], [], [0, [1]], [10**30]],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, v) for name in BAD for v in BAD[name]])
def test_what_is_refused_is_named(name, value):
    with pytest.raises(BadTokens, match=rf"\b{name}\b"):
        Tokens(X, **{name: value})


def test_self_attention_queries():
    mask = [[True, True, False], [False, True, True]]
    assert np.array_equal(Tokens(X, queries="first").queries, X[:, 0])
    assert np.array_equal(Tokens(X, queries="last").queries, X[:, 2])
    assert np.array_equal(Tokens(X, queries="first", mask=mask).queries, X[[0, 1], [0, 1]])
    assert np.array_equal(Tokens(X, queries="last", mask=mask).queries, X[[0, 1], [1, 2]])


@pytest.mark.parametrize("labels", [[1, -1], [True, -1.0], np.array([1, -1], np.int8)])
def test_labels_turn_scores(labels):
    tokens, v = Tokens(X, labels=labels), np.arange(7.0)
    assert tokens.scores(v) == pytest.approx((X @ v) * [[1], [-1]])


@pytest.mark.parametrize("kind", [bool, int, float, np.uint8])
def test_masked_tokens_do_not_count(kind):
    mask = np.array([[1, 1, 0], [0, 1, 1]], dtype=kind)
    tokens = Tokens(X, mask=mask)
    problem = Problem.of(tokens, Selection.of(tokens, ALPHA))
    assert problem.rows.tolist() == [[0, 0, 1], [1, 2, 1]]
    assert np.isneginf(tokens.scores(np.ones(7))[mask == 0]).all()


@pytest.mark.parametrize("causal", [True, False])
def test_sequence(causal):
    """Position i of sequence s attends to its own sequence, up to i when causal."""
    tokens = Tokens.sequence(X, causal=causal)
    assert (tokens.n, tokens.T, tokens.d) == (6, 3, 7)
    assert np.shares_memory(tokens.X, X) and np.shares_memory(tokens.queries, X)
    assert tokens.queries[4] == pytest.approx(X[1, 1])
    assert tokens.present().sum(axis=1).tolist() == ([1, 2, 3] * 2 if causal else [3] * 6)
    v = np.arange(7.0)
    assert tokens.scores(v)[4, :2] == pytest.approx(X[1, :2] @ v)
    copied = Tokens(X[[0, 0, 0, 1, 1, 1]], queries=X.reshape(6, 7), mask=tokens.mask)
    keep = [0, 1, 0, 0, 0, 2]
    margins = [
        Problem.of(t, Selection.of(t, keep)).margins(np.ones((7, 7))) for t in (tokens, copied)
    ]
    assert margins[0] == pytest.approx(margins[1])

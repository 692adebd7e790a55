"""The two problems of next-token training: closed forms, whole against columns, embeddings."""

from types import SimpleNamespace

import numpy as np
import pytest

from attsvm import BadTokens, Problem, Sentences, solve
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token.order import orders
from attsvm.next_token.problems import (
    Columns,
    attention_problem,
    certify_whole,
    column_problem,
    decoder_problem,
    descend,
    levels,
    solve_attention,
    solve_decoder,
    solve_graph,
)
from attsvm.next_token.sentences import embedding_of


def star(m):
    """One token above m others, for the query m; every token follows itself."""
    return Sentences.of([[*range(1, m), 0, m, 0]], vocabulary=m + 3, collocations="copy")


@pytest.mark.parametrize("m", [1, 2, 5, 13])
def test_a_star_has_its_closed_form(m):
    data = star(m)
    best = solve_attention(orders(data), np.eye(data.vocabulary))
    column = best.W[:, m]
    np.testing.assert_allclose(column[0], m / (m + 1), rtol=1e-12)
    np.testing.assert_allclose(column[1 : m + 1], -1 / (m + 1), rtol=1e-12)
    # Tokens in no relation, and the columns of other queries, are exactly zero.
    assert not column[m + 1 :].any()
    assert not np.delete(best.W, m, axis=1).any()
    assert best.status == "optimal" and best.gap < 1e-12
    np.testing.assert_allclose(best.upper, np.sqrt(m / (m + 1)), rtol=1e-12)


@pytest.mark.parametrize("N", [2, 3, 20, 57])
def test_the_decoder_has_norm_root_of_n_less_one(N):
    data = Sentences.of([[x, (x + 1) % N] for x in range(N)])
    best = solve_decoder(data, np.eye(N))
    assert best.lower <= np.sqrt(N - 1) * (1 + 1e-15) and best.upper >= np.sqrt(N - 1) * (1 - 1e-15)
    assert best.gap < 1e-11
    if N <= 20:
        whole = solve(decoder_problem(data, np.eye(N)))
        np.testing.assert_allclose(best.W, whole.W, atol=1e-6)
        assert decoder_problem(data, np.eye(N)).margins(best.W).min() > 1 - 1e-12


def test_a_decoder_of_some_collocations_leaves_other_columns_empty():
    data = Sentences.of([[0, 1], [3, 0]], vocabulary=4)
    best = solve_decoder(data, np.eye(4))
    assert not best.W[:, [1, 2]].any()
    np.testing.assert_allclose(best.upper**2, 2 * 3 / 4, rtol=1e-12)
    np.testing.assert_allclose(best.W, solve(decoder_problem(data, np.eye(4))).W, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("draw", [realizable, cyclic])
def test_columns_and_the_whole_problem_agree(draw, seed):
    data = Sentences.of(draw(9, (2, 5), 30, seed))
    found, E = orders(data), np.eye(9)
    best = solve_attention(found, E)
    problem = attention_problem(found, E)
    whole = solve(problem)
    np.testing.assert_allclose(best.W, whole.W, atol=1e-7)
    assert max(best.lower, whole.lower) <= min(best.upper, whole.upper)
    again = certify_whole(found, E, best)
    assert again.status == "optimal" and again.gap < 1e-10 and again.verify().ok
    # Every edge of the order is met, not only the covering ones; ties are met exactly.
    for q, order in found.items():
        u = best.W[order.tokens, q]
        between = order.component[order.hi] != order.component[order.lo]
        assert (u[order.hi] - u[order.lo])[between].min(initial=1.0) > 1 - 1e-9
        assert np.abs(u[order.hi] - u[order.lo])[~between].max(initial=0.0) == 0
        sums = np.bincount(order.parts, u)
        assert np.abs(sums).max(initial=0.0) < 1e-9


@pytest.mark.parametrize("d", [4, 9, 12])
def test_any_embedding(d):
    data = Sentences.of(realizable(9, 3, 12, 1))
    E = embedding_of(9, "normal", dimension=d, seed=3)
    found = orders(data)
    best = solve_attention(found, E)
    if best.status == "optimal":
        assert attention_problem(found, E).margins(best.W).min() > 1 - 1e-6
    assert best.status in ("optimal", "infeasible")
    if d >= 9:
        assert best.status == "optimal"
        # More room than orthonormal tokens need, and another geometry: another solution.
        assert abs(best.upper - solve_attention(found, np.eye(9)).upper) > 1e-3
    decoder = solve_decoder(data, E)
    assert decoder.status == ("optimal" if d >= 9 else decoder.status)


def test_a_larger_dimension_than_the_vocabulary_changes_nothing():
    data = Sentences.of(realizable(6, 3, 12, 1))
    found = orders(data)
    wide = solve_attention(found, embedding_of(6, dimension=10))
    assert wide.W.shape == (10, 10) and not wide.W[6:].any()
    np.testing.assert_array_equal(wide.W[:6, :6], solve_attention(found, np.eye(6)).W)


def random_graph(seed, size=14):
    """The edges of a random acyclic graph and random sizes of its nodes."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((size, size)) < rng.choice([0.1, 0.3, 0.8]), 1)
    upper[0, size - 1] = True
    hi, lo = np.nonzero(upper)
    turn = rng.permutation(len(hi))
    return hi[turn], lo[turn], rng.integers(1, 5, size).astype(float)


@pytest.mark.parametrize("seed", range(25))
def test_the_graph_solver_reaches_the_general_one(seed):
    hi, lo, size = random_graph(seed)
    u, lam = solve_graph(hi, lo, size)
    D = np.zeros((len(hi), len(size)))
    D[np.arange(len(hi)), hi] = 1
    D[np.arange(len(hi)), lo] -= 1
    best = solve(Problem.from_rows(D / np.sqrt(size)))
    np.testing.assert_allclose(u * np.sqrt(size), best.W[:, 0], atol=1e-6)
    assert (u[hi] - u[lo]).min() > 1 - 1e-9
    flow = np.bincount(hi, lam, len(size)) - np.bincount(lo, lam, len(size))
    np.testing.assert_allclose(flow, size * u, atol=1e-6)


def test_the_graph_kernels_and_their_python_are_the_same():
    hi, lo, size = random_graph(3)
    results = []
    for one, two in ((descend, levels), (descend.py_func, levels.py_func)):
        lam, u = np.zeros(len(hi)), np.zeros(len(size))
        results.append((one(hi, lo, size, lam, u, 7), lam, u, two(hi, lo, size, lam)))
    for mine, plain in zip(*results, strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-14, atol=1e-15)


def test_a_column_counts_tied_tokens():
    data = Sentences.of([[0, 1, 2, 0], [0, 1, 2, 1]], collocations="copy")
    found = orders(data)
    problem = column_problem(found[2])
    best = solve_attention(found, np.eye(3))
    # Two tied tokens at 1/3, one at −2/3: 2·(1/9) + 4/9 = 2/3.
    np.testing.assert_allclose(best.W[:, 2], [1 / 3, 1 / 3, -2 / 3], rtol=1e-12)
    np.testing.assert_allclose(best.upper**2, 2 / 3, rtol=1e-12)
    assert problem.shape == (2, 1)


def test_nothing_to_separate_is_said():
    data = Sentences.of([[0, 0, 0]], vocabulary=2, collocations="copy")
    with pytest.raises(BadTokens, match="no token is above another"):
        attention_problem(orders(data), np.eye(2))
    assert solve_attention(orders(data), np.eye(2)).upper == 0
    with pytest.raises(BadTokens, match="needs a collocation"):
        decoder_problem(Sentences.of([[0, 1, 0]]), np.eye(2))


def test_the_bounds_of_columns_near_the_end_of_the_range():
    for size in (1e-200, 1e-310, 1e200, 1.7e307):
        pieces = tuple(SimpleNamespace(lower=k * size, upper=k * size) for k in (3.0, 4.0))
        found = Columns(np.zeros((1, 1)), pieces, (1, 1))
        assert found.lower <= 5 * size <= found.upper
        assert found.upper - found.lower <= 1e-14 * found.upper + 1e-322


def test_nothing_to_part_is_solved_without_a_gap():
    tied = orders(Sentences.of([[0, 1, 0], [0, 1, 1]], collocations="copy"))
    for E in (np.eye(2), 2 * np.eye(2)):
        found = solve_attention(tied, E)
        assert (found.lower, found.upper, found.gap) == (0, 0, 0)


def test_an_embedding_of_other_tokens_is_refused():
    data = star(3)
    for E in (np.eye(3), np.ones((3, 2)), np.eye(9)):
        for call in (solve_attention, attention_problem):
            with pytest.raises(BadTokens, match=r"must be \(6, d\)"):
                call(orders(data), E)
        for call in (solve_decoder, decoder_problem):
            with pytest.raises(BadTokens, match=r"must be \(6, d\)"):
                call(data, E)
    with pytest.raises(BadTokens, match="orders"):
        solve_attention(data, np.eye(6))
    assert solve_attention(orders(data), np.eye(6).tolist()).status == "optimal"

"""Optimality of selections, and the enumeration of all of them against brute force."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attsvm import (
    BadSelection,
    Selection,
    Tokens,
    Unsupported,
    local_optima,
    optimality,
    solve,
)
from attsvm.theory.optima import count_selections, score_gaps
from tests.tolerances import GAP, ORACLE, ROUNDING
from tests.zoo import chosen, sphere_tokens


def brute(tokens, v, norm="frobenius"):
    """alpha -> (least norm, locally optimal) of every feasible selection, by plain solves.

    A margin within ORACLE of 1 is taken as tight; instances are drawn so that this is clear.
    """
    gamma = tokens.scores(v)
    found = {}
    for alpha in product(range(tokens.T), repeat=tokens.n):
        if not all(np.isfinite(gamma[i, a]) for i, a in enumerate(alpha)):
            continue
        best = solve(chosen(tokens, alpha), norm)
        if best.status == "infeasible":
            continue
        near = best.margins < 1 + ORACLE
        assert not ((best.margins > 1 + ORACLE / 100) & near).any()
        rows = best.problem.rows[near]
        local = all(gamma[i, alpha[i]] > gamma[i, t] for i, _, t in rows)
        found[alpha] = (best.upper, local)
    return found


def case(name):
    """Small instances: (tokens, head)."""
    if name == "prompt":
        return sphere_tokens(3, 3, 2, seed=4, queries=False)
    if name == "weights":
        return sphere_tokens(3, 3, 3, seed=1)
    if name == "two inputs":
        return sphere_tokens(2, 4, 2, seed=2, queries=False)
    if name == "one input":
        return sphere_tokens(1, 5, 2, seed=3, queries=False)
    tokens, v = sphere_tokens(3, 4, 2, seed=5, queries=False)
    mask = np.array([[1, 1, 1, 0], [1, 0, 1, 1], [1, 1, 1, 1]], dtype=bool)
    return Tokens(tokens.X, labels=tokens.labels, mask=mask), v


CASES = ("prompt", "weights", "two inputs", "one input", "masked")


@pytest.mark.parametrize("name", CASES)
def test_enumeration_equals_brute_force(name):
    tokens, v = case(name)
    expected = brute(tokens, v)
    found = local_optima(tokens, v)
    assert found.total == count_selections(tokens) == tokens.present().sum(axis=1).prod()
    listed = {tuple(c): x for c, x in zip(found.choices.tolist(), found.least, strict=True)}
    assert listed.keys() == expected.keys()
    for alpha, (least, _) in expected.items():
        assert_allclose(listed[alpha], least, rtol=GAP)
    local = {alpha for alpha, verdict in found.local if verdict.locally}
    assert local == {alpha for alpha, (_, yes) in expected.items() if yes}
    assert found.best.tolist() == tokens.scores(v).argmax(axis=1).tolist()
    uppers = [verdict.certificate.upper for _, verdict in found.local]
    assert uppers == sorted(uppers)
    assert f"{found.total} selections" in repr(found)


def test_the_cases_tell_something():
    shares = [[yes for _, yes in brute(*case(name)).values()] for name in CASES]
    assert all(any(yes) for yes in shares) and sum(not all(yes) for yes in shares) >= 3
    cut = [local_optima(*case(name)) for name in CASES]
    assert any(len(found.choices) < found.total for found in cut)


@pytest.mark.parametrize("norm", ["nuclear", "l1.75", "l3"])
def test_other_norms_equal_brute_force(norm):
    tokens, v = case("two inputs")
    expected = brute(tokens, v, norm)
    found = local_optima(tokens, v, norm)
    listed = {tuple(c): x for c, x in zip(found.choices.tolist(), found.least, strict=True)}
    assert listed.keys() == expected.keys()
    for alpha, (least, _) in expected.items():
        assert_allclose(listed[alpha], least, rtol=ORACLE)
    for alpha, verdict in found.local:
        assert verdict.locally in (None, expected[alpha][1])
    yes = {alpha for alpha, (_, local) in expected.items() if local}
    assert yes <= {alpha for alpha, _ in found.local}


@pytest.mark.parametrize("name", CASES)
def test_a_single_verdict_equals_brute_force(name):
    tokens, v = case(name)
    best = tuple(tokens.scores(v).argmax(axis=1))
    for alpha, (least, local) in list(brute(tokens, v).items())[:20]:
        verdict = optimality(tokens, Selection.of(tokens, alpha), v)
        assert verdict.globally == (alpha == best)
        assert verdict.locally == local
        assert verdict.kind == ("global" if alpha == best else "local" if local else "neither")
        assert_allclose(verdict.certificate.upper, least, rtol=GAP)
        assert (verdict.score_gap > 0) == local
        gamma = tokens.scores(v)
        for w in verdict.neighbours:
            gap = gamma[w.input, alpha[w.input]] - gamma[w.input, w.token]
            assert_allclose(w.score_gap, gap, rtol=0, atol=ROUNDING)
        assert all(w.score_gap <= 0 for w in verdict.witnesses)
        assert bool(verdict.witnesses) == (not local)


def test_an_infeasible_selection_is_named():
    tokens = Tokens([[[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]])
    verdict = optimality(tokens, Selection.of(tokens, [0]), [1.0, 0.0])
    assert verdict.kind == "infeasible" and verdict.locally is None
    assert np.isnan(verdict.score_gap) and verdict.certificate.status == "infeasible"
    found = local_optima(tokens, [1.0, 0.0])
    assert found.choices.tolist() == [[1], [2]] and found.infeasible == 1


def test_progress_runs_to_one():
    tokens, v = case("prompt")
    for norm in ("frobenius", "l3"):
        seen = []
        local_optima(tokens, v, norm, progress=seen.append)
        assert seen == sorted(seen) and seen[0] > 0 and abs(seen[-1] - 1.0) <= ROUNDING


def test_too_many_selections_are_refused_before_any_work():
    tokens, v = sphere_tokens(9, 9, 3, seed=0)
    with pytest.raises(Unsupported, match="more than 10000000"):
        local_optima(tokens, v)
    tokens, v = case("prompt")
    with pytest.raises(Unsupported, match="more than 26"):
        local_optima(tokens, v, most=26)
    assert local_optima(tokens, v, most=27).total == 27


def test_a_token_whose_key_is_shared_cannot_win():
    X = np.array([[[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]])
    values = np.array([[[1.0], [2.0], [3.0]]])
    found = local_optima(Tokens(values, keys=X), [1.0])
    assert found.choices.tolist() == [[2]] and found.total == 3
    assert_allclose(found.least, [1 / np.sqrt(2)], rtol=GAP)
    with pytest.raises(BadSelection, match="no token of input 0 can win"):
        local_optima(Tokens(values, keys=0 * X), [1.0])


def test_equal_highest_scores_are_refused():
    level = Tokens([[[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]]])
    with pytest.raises(BadSelection, match="share the highest score"):
        local_optima(level, [1.0, 0.0])


def test_score_gaps_do_not_cancel():
    # the values are 1e8 from the origin: differences of scores would lose eight digits
    X = np.array([[[1e8, 0.0], [1e8, 3e-8], [1e8, 1.0]]])
    gaps, tied = score_gaps(Tokens(X), np.array([0]), [1.0, 2.0])
    assert gaps[0].tolist() == [0.0, -6e-8, -2.0]
    assert tied[0].tolist() == [True, False, False]

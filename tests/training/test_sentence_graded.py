"""Optimizers that weigh small and large alike on sentences: kernels, forms, runs in many digits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from attsvm import Sentences, train
from attsvm.datasets.sentences import realizable
from attsvm.next_token.attention import Contexts
from attsvm.next_token.training import gradient as sentence_terms
from attsvm.next_token.training.gradient import attention_loss
from attsvm.training.optimizers import OPTIMIZERS as KNOWN
from attsvm.training.optimizers import optimizer_of
from attsvm.training.optimizers.graded import Graded
from attsvm.training.optimizers.graded.form import climbed, heaviest
from attsvm.training.optimizers.graded.wide import logs_of, of_logs
from tests.tolerances import EXACTLY, GRADED, ROUNDING
from tests.training.beside import OPTIMIZERS, compared
from tests.training.models.test_next_token import embedding, sentences
from tests.training.sentence_graded_evidence import PASSAGES, passage, task_of, without
from tests.twins import graded
from tests.twins import sentence_terms as twins

MANY = pytest.mark.parametrize("optimizer", OPTIMIZERS)
KINDS = ("realizable", "cyclic", "repeated", "shared")


def same(one, other):
    """Wide numbers (share, power) of the same signs and logarithms."""
    assert_array_equal(np.sign(one[0]), np.sign(other[0]))
    assert_allclose(logs_of(*one), logs_of(*other), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("size", [1.0, 60.0, 2000.0])
@pytest.mark.parametrize("name", ["orthonormal", "normal"])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_their_twin(kind, name, size):
    rng = np.random.default_rng(3)
    E = embedding(name)
    c = Contexts.of(sentences(kind), E)
    V = E @ rng.standard_normal((6, E.shape[1])).T * np.sqrt(size)
    found = attention_loss(c, V)({"W_kq": size * rng.standard_normal((1, *(E.T @ E).shape))})
    logs, top = found.logs[0], found.top[0]
    log_q = sentence_terms.outputs(logs, c.tokens, V, c.labels)
    other = twins.outputs(logs, c.tokens, V, c.labels)
    assert_allclose(log_q, other, rtol=ROUNDING, atol=ROUNDING)
    G = sentence_terms.gaps(log_q, top, c.tokens, V, c.labels)
    same(G, twins.gaps(log_q, top, c.tokens, V, c.labels))
    x = sentence_terms.pulls(logs, top, *G, c.weights)
    same(x, twins.pulls(logs, top, *G, c.weights))
    right = c.right | (np.arange(c.tokens.shape[1]) == 0)  # every sentence has one
    x = sentence_terms.choice_terms(logs, right, top, c.weights)
    same(x, twins.choice_terms(logs, right, top, c.weights))


def contrasts(rows, count, depth, seed=0):
    """Random terms over pairs of unit vectors, whose sizes are spread over e^−depth."""
    rng = np.random.default_rng([seed, rows, count])
    at, less, into = (rng.integers(0, n, count) for n in (rows, rows, 3))
    signed = rng.choice([-1.0, 0.0, 1.0], (1, count), p=[0.4, 0.2, 0.4]) * (at != less)
    x = of_logs(signed, -depth * rng.random((1, count)))
    return Graded(np.eye(rows)[None], rng.standard_normal((1, 3, 4)), at, into, *x, less)


@pytest.mark.parametrize(("rows", "count"), [(2, 1), (5, 4), (6, 40), (9, 12)])
def test_differences_go_along_the_heaviest_tree(rows, count):
    g = contrasts(rows, count, 900.0)
    given = rows, g.at, g.less, g.share[0], g.power[0]
    parent, depth = heaviest(*given)
    for one, other in zip((parent, depth), graded.heaviest(*given), strict=True):
        assert_array_equal(one, other)
    number, term, sign = climbed(parent, depth, g.at, g.less, g.share[0])
    signs = np.zeros((count, rows))
    np.add.at(signs, (term, number), sign)
    live = g.share[0] != 0
    assert_array_equal(signs[live], graded.climbed(parent, depth, g.at, g.less)[live])
    assert not signs[~live].any()
    assert_array_equal(
        (signs @ (np.eye(rows) - np.eye(rows)[parent]))[live],
        (np.eye(rows)[g.at] - np.eye(rows)[g.less])[live],
    )


@pytest.mark.parametrize("depth", [0.0, 30.0, 900.0])
def test_the_tree_gives_what_all_pairs_give(depth):
    for seed in range(3):
        g = contrasts(6, 8, depth, seed)
        left = np.ascontiguousarray((g.left[0][g.at] - g.left[0][g.less])[None])
        pairs = Graded(left, g.right, np.arange(len(g.at)), g.into, g.share, g.power)
        assert_allclose(g.resolved()[0], pairs.resolved()[0], atol=GRADED)
        assert_allclose(g.plus(pairs).resolved()[0], pairs.resolved()[0], atol=GRADED)
        assert_allclose(g.plus(g.times(0.5)).resolved()[0], pairs.resolved()[0], atol=GRADED)
        same(g.entries(), pairs.entries())


def test_a_stack_of_differences_is_its_instances():
    one, other = contrasts(6, 8, 50.0), contrasts(6, 8, 50.0)
    share, power = (np.concatenate([x, x[:, ::-1]]) for x in (other.share, other.power))
    both = Graded(one.left.repeat(2, 0), one.right.repeat(2, 0), one.at, one.into, share, power,
                  one.less)  # fmt: skip
    for b in range(2):
        alone = Graded(one.left, one.right, one.at, one.into, share[b : b + 1], power[b : b + 1],
                       one.less)  # fmt: skip
        assert_allclose(both.resolved()[0][b], alone.resolved()[0][0], atol=GRADED)


@pytest.mark.parametrize("form", PASSAGES)
def test_terms_add_up_to_the_gradient(form):
    for seed in range(3):
        s = passage(form, "sign", "normal", steps=0, seed=seed)
        found = task_of(s, "uniform").graded({name: block[None] for name, block in s.start.items()})
        assert set(found.gradient.graded) == set(s.start)
        for name, terms in found.gradient.graded.items():
            G = found.gradient.direction[name] * np.exp(found.gradient.log_scale[name])
            share, power = terms.entries()
            atol = EXACTLY * np.abs(G).max()
            assert_allclose(np.ldexp(share, power), G, rtol=0, atol=atol)


def test_only_rules_that_ask_have_a_graded_task():
    for optimizer in KNOWN:
        name = optimizer.replace(":P", ":1.5")
        if name != "polyak":  # which needs the infimum of the loss
            task = task_of(passage("next-token mass", name, "normal", steps=0), "uniform")
            assert (task.graded is not None) == optimizer_of(name).graded


@MANY
@pytest.mark.parametrize("form", PASSAGES[:6])
def test_runs_follow_the_run_of_many_digits(form, optimizer):
    assert compared(passage(form, optimizer, "far", steps=3))[0] <= GRADED


@pytest.mark.parametrize("optimizer", ["spectral", "adam"])
@pytest.mark.parametrize("form", PASSAGES[6:])
def test_narrow_embeddings_follow_as_well(form, optimizer):
    assert compared(passage(form, optimizer, "normal", steps=4))[0] <= GRADED


@pytest.mark.parametrize("form", ["decoder", "next-token mass", "next-token level"])
def test_what_is_below_the_range_of_floats_moves_as_well(form):
    s = passage(form, "sign", "far:2000", steps=2)
    assert compared(s)[0] <= GRADED
    assert without(s) > 1e-4


def test_a_run_goes_on_where_it_stopped():
    data = Sentences.of(realizable(5, 3, 8, 1))
    for optimizer in ("muon", "signum"):
        how = {"model": "joint-next-token", "optimizer": optimizer, "lr": 1.0, "init": "normal:1"}
        whole = train(data, steps=9, **how)
        part = train(data, steps=5, **how)
        part = train(data, steps=4, start=part)
        for name, block in whole.weights.items():
            assert_array_equal(part.weights[name][-1], block[-1])

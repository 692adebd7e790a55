"""One instance as a prompt and as a weight with one query: one verdict."""

import numpy as np
import pytest

import attsvm
from attsvm import Tokens
from attsvm.datasets import EXAMPLES
from attsvm.datasets.instances import sphere_arrays

QUERIES = {"the number 1": [1.0], "e1": [1.0, 0.0, 0.0]}


def instance(name):
    """X, labels, head and mask."""
    if name == "multi-input":
        a = EXAMPLES["multi-input"]()
        return a["X"], a["y"], a["v"], None
    n, T, d, seed = {"sphere": (3, 4, 4, 1), "hard": (6, 3, 2, 0), "masked": (4, 5, 3, 2)}[name]
    a = sphere_arrays(n, T, d, seed=seed)
    mask = None
    if name == "masked":
        mask = np.ones((n, T), bool)
        mask[1, 3:] = mask[2, 0] = False
    return a["X"], a["y"], a["v"], mask


def verdict(found):
    """All that is said of a run, without its numbers."""
    optimality = found.optimality
    witnesses = None if optimality is None else [(w.input, w.token) for w in optimality.witnesses]
    return {
        "state": found.state,
        "selection": found.selection.tolist(),
        "changed": found.changed,
        "kind": None if optimality is None else (optimality.kind, optimality.locally, witnesses),
        "limit": (found.limit.norm, found.limit.status, found.limit.word),
        "premises": [(p.name, p.holds) for p in found.limit.premises],
        "certificate": None if found.certificate is None else found.certificate.status,
    }


@pytest.mark.parametrize("optimizer", ["gd", "ngd", "mirror:3", "sign", "spectral"])
@pytest.mark.parametrize("name", ["multi-input", "sphere", "hard", "masked"])
@pytest.mark.parametrize("query", QUERIES)
def test_the_same_run_gets_the_same_verdict(name, optimizer, query):
    X, y, v, mask = instance(name)
    z = np.tile(QUERIES[query], (len(X), 1))
    given = {"head": v, "optimizer": optimizer, "steps": 1500, "lr": 0.3}
    bare, keyed = Tokens(X, labels=y, mask=mask), Tokens(X, queries=z, labels=y, mask=mask)
    one = attsvm.outcome(attsvm.train(bare, model="prompt", **given), bare, v)
    other = attsvm.outcome(attsvm.train(keyed, model="weight", **given), keyed, v)
    assert verdict(one) == verdict(other)
    numbers = ["top_attention", "loss", "log10_gradient", "margin_share"]
    if optimizer != "sign":  # its solutions are not unique: columns that meet no query are free
        numbers.append("correlation")
    for number in numbers:
        a, b = getattr(one, number), getattr(other, number)
        assert a == pytest.approx(b, rel=1e-6, nan_ok=True), number


@pytest.mark.parametrize("name", ["multi-input", "sphere", "hard", "masked"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_the_same_weights_get_the_same_verdict(name, size):
    X, y, v, mask = instance(name)
    bare = Tokens(X, labels=y, mask=mask)
    p = size * np.random.default_rng(3).standard_normal(X.shape[2])
    one = attsvm.outcome(p, bare, v, optimizer="ngd")
    for query in QUERIES.values():
        keyed = Tokens(X, queries=np.tile(query, (len(X), 1)), labels=y, mask=mask)
        W = np.zeros(keyed.shape)
        W[:, 0] = p
        other = attsvm.outcome(W, keyed, v, optimizer="ngd")
        assert verdict(one) == verdict(other)


def test_joint_training_too():
    a = EXAMPLES["joint-tight"]()
    bare = Tokens(a["X"], labels=a["y"])
    keyed = Tokens(a["X"], queries=np.ones((len(a["X"]), 1)), labels=a["y"])
    one = attsvm.outcome(attsvm.train(bare, model="joint-prompt", steps=1500), bare)
    other = attsvm.outcome(attsvm.train(keyed, model="joint-weight", steps=1500), keyed)
    assert verdict(one) == verdict(other)


@pytest.mark.parametrize("norm", ["frobenius", "l1.75", "l3", "l1", "max", "nuclear", "spectral"])
@pytest.mark.parametrize("seed", range(4))
def test_every_selection_gets_the_same_verdict(norm, seed):
    a = sphere_arrays(3, 3, 3, seed=seed)
    X, y, v = a["X"], a["y"], a["v"]
    bare = Tokens(X, labels=y)
    query = np.random.default_rng(seed).standard_normal(3)
    keyed = [Tokens(X, queries=np.tile(z, (3, 1)), labels=y) for z in ([1.0, 0.0, 0.0], query)]
    for alpha in np.ndindex(3, 3, 3):
        one = attsvm.optimality(bare, alpha, v, norm)
        for tokens in keyed:
            other = attsvm.optimality(tokens, alpha, v, norm)
            assert (one.kind, one.locally, one.globally) == (
                other.kind, other.locally, other.globally,
            )  # fmt: skip
            assert [(w.input, w.token) for w in one.neighbours] == [
                (w.input, w.token) for w in other.neighbours
            ]
            if other.certificate.W is not None:
                assert other.certificate.W.shape == (3, 3)

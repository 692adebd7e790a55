"""Views built backwards from what they are: a sink, a place, a content head, a max-margin W."""

from dataclasses import replace

import numpy as np

import attsvm
from attsvm.inspection.view import LayerOutput, View


def view_of(keys, queries, W, **parts) -> View:
    """A View whose head has the matrix W, factored; whole rows, no special tokens unless given."""
    n, T, d = keys.shape
    U, S, V = np.linalg.svd(np.asarray(W, dtype=float), full_matrices=False)
    rng = np.random.default_rng(0)
    fields = {
        "layer": 0,
        "head": 0,
        "keys": keys,
        "queries": queries,
        "key_factor": (U * np.sqrt(S)).T,
        "query_factor": np.sqrt(S)[:, None] * V,
        "values": keys @ rng.normal(size=(d, 3)) + rng.normal(size=3),
        "valid": np.ones((n, T), dtype=bool),
        "ids": np.tile(np.arange(T), (n, 1)),
        "special": np.zeros((n, T), dtype=bool),
        "positions": np.zeros(n, dtype=np.int64),
        "texts": tuple(tuple(f"w{t}" for t in range(T)) for _ in range(n)),
    }
    return View(**(fields | parts))


def random_view(n=60, T=10, d=12, *, seed=0, scale=2.0, h=4, bias=True, **parts) -> View:
    """A head of random factors with a bias over texts of unequal length, first and last special.

    parts: other parts than the drawn ones.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, T + 1, n)
    valid = np.arange(T) < lengths[:, None]
    keys = rng.normal(size=(n, T, d))
    keys = np.where(valid[:, :, None], keys, keys[:, :1])
    special = np.zeros((n, T), dtype=bool)
    special[:, 0] = special[np.arange(n), lengths - 1] = True
    queries = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])[:, : d + bias]
    drawn = {
        "valid": valid,
        "special": special,
        "positions": rng.integers(0, lengths),
        "texts": tuple(tuple(f"w{t}" for t in range(size)) for size in lengths),
        "key_factor": rng.normal(size=(h, d)),
        "query_factor": scale * rng.normal(size=(h, d + bias)) / np.sqrt(d * h),
    }
    view = view_of(keys, queries, np.zeros((d, d + bias)), **drawn)
    mixed = LayerOutput(rng.normal(size=(5, 3)), rng.normal(size=(n, 5)))
    return replace(view, layer_output=mixed, **parts)


def head_view(n=40, T=8, h=4, *, seed=0) -> View:
    """A head in head space: its own keys and queries, W a multiple of the identity."""
    view = random_view(n, T, h, seed=seed, bias=False, scale=1.0)
    return replace(view, key_factor=np.eye(h), query_factor=0.7 * np.eye(h), space="head")


def sink_view(n=90, T=9, d=16) -> View:
    """Every query chooses the first key, a special token."""
    rng = np.random.default_rng(1)
    keys = rng.normal(size=(n, T, d))
    keys[:, :, 0] = 0.0
    keys[:, 0, 0] = 5.0
    queries = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    W = np.zeros((d, d + 1))
    W[0, -1] = 2.0
    W += 0.01 * rng.normal(size=W.shape)
    special = np.zeros((n, T), dtype=bool)
    special[:, 0] = True
    return view_of(keys, queries, W, special=special, positions=rng.integers(0, T, n))


def place_view(n=150, T=8, *, before=1) -> View:
    """Every query chooses the key `before` places before its own: keys and queries know theirs."""
    rng = np.random.default_rng(2)
    own = rng.integers(before, T, n)
    noise = 0.05 * rng.normal(size=(n, T, 4))
    keys = np.concatenate([np.tile(np.eye(T), (n, 1, 1)), noise], axis=2)
    queries = np.concatenate([np.eye(T)[own], noise[:, 0]], axis=1)
    W = np.zeros((T + 4, T + 4))
    for place in range(before, T):
        W[place - before, place] = 6.0
    return view_of(keys, queries, W, positions=own)


def content_view(n=200, T=8, kinds=6) -> View:
    """Every query asks for one kind of token, which stands anywhere in its text."""
    rng = np.random.default_rng(3)
    asked = rng.integers(0, kinds, n)
    place = rng.integers(0, T, n)
    own = (asked[:, None] + rng.integers(1, kinds, (n, T))) % kinds  # never the one asked for
    own[np.arange(n), place] = asked
    keys = np.concatenate([np.eye(kinds)[own], 0.1 * rng.normal(size=(n, T, 6))], axis=2)
    queries = np.concatenate([np.eye(kinds)[asked], 0.1 * rng.normal(size=(n, 6))], axis=1)
    W = np.zeros((kinds + 6, kinds + 6))
    W[:kinds, :kinds] = 8.0 * np.eye(kinds)
    return view_of(keys, queries, W, positions=rng.integers(0, T, n))


def random_labels(n=120, T=8, d=40) -> View:
    """Choices by a random W in so many dimensions that few of them say nothing about others."""
    rng = np.random.default_rng(4)
    keys, queries = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
    return view_of(keys, queries, rng.normal(size=(d, d)), positions=rng.integers(0, T, n))


def max_margin_view(n=20, T=5, d=6) -> View:
    """A head whose W is the max-margin matrix of its own choices: no smaller one keeps its gaps."""
    rng = np.random.default_rng(5)
    keys, queries = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
    chosen = np.einsum("ntd,nd->nt", keys, queries @ rng.normal(size=(d, d))).argmax(axis=1)
    tokens = attsvm.Tokens(keys, queries=queries)
    best = attsvm.solve(attsvm.Problem.of(tokens, chosen), tol=1e-9).require()
    return view_of(keys, queries, best.W)

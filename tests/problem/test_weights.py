"""A W of one's own in every form: the same matrix, the same tokens, a sentence where it is odd."""

from fractions import Fraction

import numpy as np
import pytest

import attsvm
from attsvm import BadTokens, Selection, Tokens
from attsvm.problem.weights import WeightBlocks
from attsvm.training.models import MODELS

RNG = np.random.default_rng(5)
X, Z = RNG.standard_normal((3, 4, 3)), RNG.standard_normal((3, 2))
TOKENS = Tokens(X, queries=Z)
W = RNG.standard_normal((3, 2))
K, Q = RNG.standard_normal((3, 5)), RNG.standard_normal((2, 5))


class FakeTensor:
    """What a tensor shows of itself: nothing but the way to NumPy."""

    def __init__(self, array, *, kind=None):
        self.array, self.kind = np.asarray(array), kind

    def detach(self):
        return FakeTensor(self.array, kind=self.kind)

    def cpu(self):
        return FakeTensor(self.array, kind=self.kind)

    def float(self):
        return FakeTensor(self.array.astype(np.float32))

    def numpy(self):
        if self.kind == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array

    def __array__(self, *_, **__):
        raise RuntimeError("can't call numpy() on a tensor that requires grad")


def exact_top(tokens, matrix):
    """The highest logit by fractions, the first among equals."""
    source = range(tokens.n) if tokens.source is None else tokens.source
    out = []
    for i, s in enumerate(source):
        logits = {}
        for t in range(tokens.T):
            if tokens.mask is None or tokens.mask[i, t]:
                logits[t] = sum(
                    Fraction(float(tokens.keys[s, t, r]))
                    * Fraction(float(matrix[r, c]))
                    * Fraction(float(tokens.queries[i, c]))
                    for r in range(matrix.shape[0])
                    for c in range(matrix.shape[1])
                )
        out.append(max(logits, key=lambda t: (logits[t], -t)))
    return out


@pytest.mark.parametrize(
    "given",
    [W, W.tolist(), {"W": W}, FakeTensor(W), {"W": FakeTensor(W)},
     W.T.copy().T, W[::-1][::-1]],
)  # fmt: skip
def test_a_matrix_in_every_form(given):
    assert np.array_equal(WeightBlocks.of(given, (3, 2)).matrix, W)
    assert Selection.attended(TOKENS, given).indices.tolist() == exact_top(TOKENS, W)


@pytest.mark.parametrize(
    "given",
    [(K, Q), {"K": K, "Q": Q}, {"Q": Q, "K": K}, (FakeTensor(K), FakeTensor(Q)),
     (K.tolist(), Q.tolist())],
)  # fmt: skip
def test_factors_in_every_form(given):
    made = WeightBlocks.of(given, (3, 2)).matrix
    assert np.allclose(made, sum(np.outer(K[:, m], Q[:, m]) for m in range(5)), rtol=1e-14)
    assert np.array_equal(made, MODELS["factored"].matrix({"K": K[None], "Q": Q[None]})[0])


def test_a_prompt_is_a_column():
    tokens, p = Tokens(X), RNG.standard_normal(3)
    for given in (p, p[:, None], {"p": p}, {"W": p[:, None]}, p.tolist(), p[None]):
        assert WeightBlocks.of(given, tokens.shape).matrix.tolist() == p[:, None].tolist()
        assert Selection.attended(tokens, given).indices.tolist() == exact_top(tokens, p[:, None])


def test_a_stack_gives_the_instance_asked_for():
    stack = RNG.standard_normal((4, 3, 2))
    factors = RNG.standard_normal((4, 3, 5)), RNG.standard_normal((4, 2, 5))
    prompts = RNG.standard_normal((4, 3))
    for b in range(4):
        assert np.array_equal(WeightBlocks.of(stack, (3, 2), instance=b).matrix, stack[b])
        assert np.allclose(
            WeightBlocks.of(factors, (3, 2), instance=b).matrix, factors[0][b] @ factors[1][b].T
        )
        assert np.array_equal(WeightBlocks.of(prompts, (3, 1), instance=b).matrix[:, 0], prompts[b])
        found = Selection.attended(TOKENS, stack, instance=b)
        assert found.indices.tolist() == exact_top(TOKENS, stack[b])
        assert found.origin == "attention"


ODD = {
    "one token": Tokens(X[:, :1], queries=Z),
    "a mask": Tokens(X, queries=Z, mask=[[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]]),
    "float32": Tokens(X.astype(np.float32), queries=Z),
    "duplicated tokens": Tokens(np.repeat(X[:, :2], 2, axis=1), queries=Z),
    "keys of their own": Tokens(X, queries=Z, keys=X[:, ::-1] * 3.0),
    "a sequence": Tokens.sequence(RNG.standard_normal((2, 4, 3))),
    "near tokens": Tokens(1e6 + np.array([[[0, 0, 0], [0, 0, 2**-30], [0, 2**-30, 0]]])),
}


@pytest.mark.parametrize("size", [1e-70, 1e-6, 1.0, 1e6, 1e70])
@pytest.mark.parametrize("name", ODD)
def test_odd_tokens_and_sizes(name, size):
    tokens = ODD[name]
    rng = np.random.default_rng(1)
    for _ in range(5):
        matrix = size * rng.integers(-4, 5, tokens.shape).astype(float)
        assert Selection.attended(tokens, matrix).indices.tolist() == exact_top(tokens, matrix)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (W.T, r"W has shape \(2, 3\); it must be \(3, 2\)"),
        (W[:, 0], r"W has shape \(3,\); it must be \(3, 2\)"),
        (np.where(W[1, 0] == W, np.nan, W), r"W\[1, 0\] is nan: entries must be finite"),
        (W * 1e80, r"entries must be finite and below 1e\+75"),
        ("W", "it must hold real numbers"),
        ([[1.0, 2.0], [3.0], [4.0]], "not a rectangular array"),
        ((K, Q[:, :4]), "K has 5 columns and Q 4"),
        ((Q, K), r"K has shape \(2, 5\); it must be \(3, m\)"),
        ((K[:, :0], Q[:, :0]), "an axis is empty"),
        ({"K": K}, "the weights have K: give W, or p, or K and Q"),
        ({"p": W[:, 0]}, "p is for tokens without queries; with queries of width 2"),
    ],
)
def test_bad_weights_are_named(given, said):
    with pytest.raises(BadTokens, match=said):
        Selection.attended(TOKENS, given)


def test_instances_that_are_not_there():
    stack = np.zeros((4, 3, 2))
    for instance in (4, -1, "0", 1.5):
        with pytest.raises(BadTokens, match="instances run from 0 to 3"):
            Selection.attended(TOKENS, stack, instance=instance)
    with pytest.raises(BadTokens, match="instance is 1: there is one instance, 0"):
        Selection.attended(TOKENS, W, instance=1)


def test_a_half_precision_tensor_is_read():
    assert WeightBlocks.of(FakeTensor([[1.5], [2.0]], kind="bfloat16"), (2, 1)).matrix.dtype == "f8"


def test_a_path_and_tokens_are_told_apart():
    tokens = Tokens(X, queries=Z, labels=[1, -1, 1])
    path = attsvm.train(tokens, head=[1.0, 0.0, 0.0], steps=50)
    end = path.matrices()[-1, 0]
    of_path, of_end = Selection.attended(path), Selection.attended(tokens, end)
    assert np.array_equal(of_path.kept, of_end.kept)
    with pytest.raises(BadTokens, match="instance is 1: there is one instance"):
        Selection.attended(path, instance=1)
    with pytest.raises(BadTokens, match="W goes with tokens"):
        Selection.attended(path, end)
    with pytest.raises(BadTokens, match="tokens alone attend to nothing"):
        Selection.attended(tokens)

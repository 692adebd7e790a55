"""Differences of token scores γ_it = y_i v·x_it with the right sign, however close two scores are.

A difference is formed in floats from x_iα − x_it. Where that is within its own rounding error of
zero (`rounding`, the one threshold for ties of scores), it is computed again exactly: by floats
that hold every product without error, or in rational numbers where a product leaves their range.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints, exact_product
from attsvm.problem.tokens import Tokens

_EPS = float(np.finfo(np.float64).eps)
# Products of this size are sums of two floats.
_LEAST, _MOST = 1e-240, 1e240


def rounding(most: Any, head: Floats) -> Any:
    """How far v·x may be off in floats, in any order of summation, where |x_j| ≤ most."""
    return (len(head) + 16) * (_EPS * most * np.abs(head).sum() + math.ulp(0.0))


def signed_gaps(high: Floats, low: Floats, head: Floats) -> tuple[Floats, Bools]:
    """v·(high − low) (K,) with its sign, 0 for exact ties; and which are ties up to rounding.

    high, low: (K, d). head: v (d,).
    """
    D = high - low
    gaps = D @ head
    near = np.abs(gaps) <= rounding(np.abs(D).max(axis=1, initial=0.0), head)
    if near.any():
        gaps[near] = exact_gaps(high[near], low[near], head)
    return gaps, near


def exact_gaps(high: Floats, low: Floats, head: Floats) -> Floats:
    """v·(high − low) (K,), correctly rounded, and 0 only where it is 0."""
    D = high - low
    back = D - high
    rest = (high - (D - back)) - (low + back)  # D + rest is high − low
    fine = np.ones(len(D), dtype=bool)
    parts: list[Floats] = []
    for one in (D, rest):
        size = np.abs(one * head)
        fine &= ((one == 0) | (head == 0) | ((size > _LEAST) & (size < _MOST))).all(axis=1)
        parts += exact_product(one, head)
    terms = np.concatenate(parts, axis=1)
    fine &= np.isfinite(terms).all(axis=1)
    return np.array(
        [
            math.fsum(terms[k].tolist()) if fine[k] else _rational(high[k], low[k], head)
            for k in range(len(D))
        ]
    )


def score_gaps(tokens: Tokens, alpha: Ints, head: Floats) -> tuple[Floats, Bools]:
    """γ_iα − γ_it (n, T) and which are ties up to rounding, as `signed_gaps`; 0 for no token."""
    inputs, places = tokens.present().nonzero()
    gaps, near = np.zeros((tokens.n, tokens.T)), np.zeros((tokens.n, tokens.T), dtype=bool)
    found = _between(tokens, inputs, alpha[inputs], places, head)
    gaps[inputs, places], near[inputs, places] = found
    return gaps, near


def best_tokens(tokens: Tokens, head: Floats) -> tuple[Ints, Ints]:
    """The token of highest score of each input (n,), and another of just this score, −1 for none.

    Exact arithmetic is for inputs whose highest scores are within rounding of each other.
    """
    scores = tokens.scores_of(head)
    first: Ints = scores.argmax(axis=1)
    second = np.full(tokens.n, -1)
    most = max(float(tokens.X.max(initial=0.0)), -float(tokens.X.min(initial=0.0)))
    least = scores.max(axis=1, keepdims=True) - 4 * rounding(most, head)
    close = (scores >= least) & tokens.present()
    left = (close.sum(axis=1) > 1).nonzero()[0]
    while len(left):
        row, place = close[left].nonzero()
        gaps = np.full((len(left), tokens.T), np.inf)
        gaps[row, place] = _between(tokens, left[row], first[left[row]], place, head)[0]
        gaps[np.arange(len(left)), first[left]] = np.inf
        next_, least_gap = gaps.argmin(axis=1), gaps.min(axis=1)
        second[left] = np.where(least_gap == 0, next_, -1)
        first[left] = np.where(least_gap < 0, next_, first[left])
        left = left[least_gap < 0]
    return first, second


def _between(
    tokens: Tokens, inputs: Ints, high: Ints, low: Ints, head: Floats
) -> tuple[Floats, Bools]:
    """`signed_gaps` of the tokens high and low of these inputs, (K,) each."""
    source = inputs if tokens.source is None else tokens.source[inputs]
    X = tokens.X
    gaps, near = signed_gaps(
        X[source, high].astype(np.float64, copy=False),
        X[source, low].astype(np.float64, copy=False),
        head,
    )
    return gaps if tokens.labels is None else gaps * tokens.labels[inputs], near


def _rational(high: Floats, low: Floats, head: Floats) -> float:
    """One difference in rational numbers, as a float that is 0 only where the number is."""
    total = sum(
        (
            (Fraction(a) - Fraction(b)) * Fraction(c)
            for a, b, c in zip(high.tolist(), low.tolist(), head.tolist(), strict=True)
        ),
        Fraction(0),
    )
    return float(total) or math.copysign(math.ulp(0.0), total) * (total != 0)

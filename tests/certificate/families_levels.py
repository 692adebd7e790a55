"""Ties with right-hand sides other than zero: decimals, log-ratios, and intervals."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from attsvm import Problem, Selection, Tokens
from tests.certificate.case import Case


def levelled_ties(draw: Any) -> Case:
    """Ties e_i, e_j and whole combinations of them, with decimal right-hand sides.

    The sums of decimals are not exact in floats: (.1, .2, .3) on e1, e2, e1 + e2 contradict.
    With right-hand sides taken in quarters they are consistent exactly.
    """
    d = int(draw.integers(2, 5))
    exact = draw.random() < 0.4
    w = draw.integers(-8, 9, d) / (4.0 if exact else 10.0)
    if draw.random() < 0.2:
        w, exact = np.array([0.1, 0.2, *w[2:]]), False
    mix = draw.integers(-2, 3, (int(draw.integers(1, 4)), d)).astype(float)
    mix[0] = np.arange(d) < 2
    ties = np.concatenate([np.eye(d), mix])
    c = ties @ w
    if not exact:
        c = np.round(c, 6)
    m = int(draw.integers(0, 3))
    if m == 0:
        problem = Problem.from_rows(np.empty((0, d)), ties=ties, c=c)
        return Case(problem, points=[w[:, None]] if exact else [])
    D = draw.standard_normal((m, d))
    return Case(Problem.from_rows(D, ties=ties, c=c, b=np.full(m, draw.choice([0.0, 1.0]))))


def finite_part(draw: Any) -> Case:
    """Log-ratios as right-hand sides on whole-number tokens, more kept than dimensions."""
    d, n = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    T = d + int(draw.integers(1, 4))
    X = draw.integers(-2, 3, (n, T, d)).astype(float)
    if draw.random() < 0.4:
        X = draw.standard_normal(X.shape)
    z = draw.integers(1, 3, (n, 1)).astype(float)
    W = draw.standard_normal((d, 1))
    score = np.einsum("ntd,de,ne->nt", X, W, z)
    attention = np.exp(score - score.max(axis=1, keepdims=True))
    attention /= attention.sum(axis=1, keepdims=True)
    tokens = Tokens(X, queries=z)
    kept = Selection.of(tokens, np.ones((n, T), dtype=bool))
    return Case(Problem.finite(tokens, kept, attention))


def interval_ties(draw: Any) -> Case:
    """Ties within c_error of their right-hand sides: wide enough for a known W, or one too narrow.

    Rows are whole numbers, W is decimal, c is what floats make of their product; the error is what
    that misses, exactly, rounded up or down. Plain ties where problems have no such intervals.
    """
    d, l, m = int(draw.integers(1, 4)), int(draw.integers(1, 7)), int(draw.integers(0, 3))
    w = np.round(draw.standard_normal(d), 1)
    E = draw.integers(-3, 4, (l, d)).astype(float)
    c = np.round(E @ w, 6)
    missed = [
        abs(sum(Fraction(float(x)) * Fraction(float(v)) for x, v in zip(row, w, strict=True)) - f)
        for row, f in zip(E, map(Fraction, c.tolist()), strict=True)
    ]
    error = np.array([np.nextafter(float(e), 1.0) if e else 0.0 for e in missed])
    grown = float(draw.choice([1.0, 1.0, 1.0, 4.0, 1e6, 1e12, 0.5]))
    D = draw.integers(-2, 3, (m, d)).astype(float)
    problem = Problem.from_rows(D, b=np.zeros(m), ties=E, c=c)
    if "c_error" not in {field.name for field in fields(Problem)}:
        return Case(problem)
    problem = replace(problem, c_error=error * grown)
    signs = [
        sum(Fraction(float(x)) * Fraction(float(v)) for x, v in zip(row, w, strict=True)) >= 0
        for row in D
    ]
    known = grown >= 1 and all(signs)
    return Case(problem, feasible=True if known else None, points=[w[:, None]] if known else [])


LEVELS = (levelled_ties, finite_part, interval_ties)

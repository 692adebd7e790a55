"""The published instance of joint mirror descent: two inputs of three tokens in the plane."""

from __future__ import annotations

from collections.abc import Sequence

from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens

X = [[[-2.7, 1.2], [1.4, 2.1], [1.3, -0.1]], [[0.4, -2.2], [-1.1, -0.4], [0.9, 0.1]]]
EXPONENTS = ("1.75", "2", "3")


def instance() -> Tokens:
    """The tokens: queries are the first tokens, labels +1 and −1."""
    return Tokens(X, queries="first", labels=[1, -1])


def problems(alpha: Sequence[int]) -> dict[str, Problem]:
    """The attention's and the decoder's problem at these tokens."""
    tokens = instance()
    keep = Selection.of(tokens, list(alpha))
    return {"W": Problem.of(tokens, keep), "v": Problem.of_labels(tokens, keep)}

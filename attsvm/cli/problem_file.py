"""Problem and solution files: what they hold and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.files import load_arrays
from attsvm.certificate import Certificate
from attsvm.cli.options import PROBLEMS
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_sets import relaxed

# The arrays a problem file may hold; others are refused so that a misspelt name is not ignored.
KNOWN = (
    *("X", "z", "y", "v", "V", "penalty", "alpha", "select", "b", "keys", "mask", "attention"),
    *("p0", "W0", "K0", "Q0", "v0"),  # starting points
)

_LETTERS = {"queries": "z", "labels": "y"}


@dataclass(frozen=True, eq=False)
class Archive:
    """A problem file: its tokens, its selection if one is given or follows from v, its arrays."""

    tokens: Tokens
    arrays: dict[str, Any]

    @property
    def selection(self) -> Selection:
        """`alpha` or `select` of the file, else the best-scoring tokens under `v`."""
        arrays = self.arrays
        if "alpha" in arrays and "select" in arrays:
            raise BadTokens("the file holds both alpha and select; keep one of them")
        if "alpha" in arrays:
            if arrays["alpha"].dtype == np.bool_:
                raise BadTokens("alpha holds booleans; it is one index per input; use select")
            return Selection.of(self.tokens, arrays["alpha"])
        if "select" in arrays:
            return Selection.of(self.tokens, _booleans(arrays["select"]))
        if "v" not in arrays:
            raise BadTokens("the file holds no alpha, no select and no v: add one to select tokens")
        return Selection.best(self.tokens, arrays["v"])

    def problem(self, kind: str = "selection", winners: Any = None) -> Problem:
        """The problem of this kind, one of PROBLEMS; `any` needs the winners (n,)."""
        if kind not in PROBLEMS:
            raise Unsupported(f"unknown problem {kind!r}: known are {', '.join(PROBLEMS)}")
        tokens, keep = self.tokens, self.selection
        if kind == "any":
            if winners is None:
                raise BadTokens("problem 'any' is convex only for given winners: none are given")
            chosen = Selection.of(tokens, winners)
            if (chosen.kept & ~keep.kept).any():
                i = int((chosen.kept & ~keep.kept).any(axis=1).argmax())
                raise BadTokens(f"the winner of input {i} is not one of its kept tokens")
            return Problem.any_of(tokens, keep, winners)
        if kind == "labels":
            return Problem.of_labels(tokens, keep)
        if kind == "relaxed":
            return relaxed(tokens, keep)
        if kind == "finite":
            if "attention" not in self.arrays:
                raise BadTokens("the finite part needs an array attention (n, T) in the file")
            return Problem.finite(tokens, keep, self.arrays["attention"])
        return Problem.of(tokens, keep, b=self.arrays.get("b"))


def tokens_of(arrays: dict[str, Any]) -> Tokens:
    """The tokens of a problem file's arrays."""
    return Tokens(
        arrays["X"],
        queries=arrays.get("z"),
        labels=arrays.get("y"),
        keys=arrays.get("keys"),
        mask=arrays.get("mask"),
    )


def read_problem(path: Path, *, build: Callable[[dict[str, Any]], Tokens] = tokens_of) -> Archive:
    """The problem file at `path`, checked; `build` makes the tokens of its arrays."""
    arrays = load_arrays(path)
    if "X" not in arrays:
        raise BadTokens(f"{path} has no array X; it holds {', '.join(arrays) or 'nothing'}")
    unknown = sorted(set(arrays) - set(KNOWN))
    if unknown:
        raise BadTokens(f"{path} holds an unknown array {unknown[0]!r}; known: {', '.join(KNOWN)}")
    try:
        tokens = build(arrays)
    except BadTokens as error:  # in a file the queries are z and the labels y
        sentence = re.sub(r"^(queries|labels)\b", lambda m: _LETTERS[m[0]], str(error))
        raise BadTokens(sentence) from error
    return Archive(tokens, arrays)


def _booleans(select: NDArray[Any]) -> NDArray[Any]:
    """The array as booleans, from booleans or zeros and ones."""
    if select.dtype == np.bool_:
        return select
    if select.dtype.kind not in "iuf" or not np.isin(select, (0, 1)).all():
        raise BadTokens("select must hold only True and False (one index per input is alpha)")
    return select.astype(bool)


def solution_arrays(certificate: Certificate) -> dict[str, Any]:
    """What `solve --out` writes: the pair, its rows, the bounds, norm and status."""
    problem = certificate.problem
    shape = problem.shape
    return {
        "W": np.full(shape, np.nan) if certificate.W is None else certificate.W,
        "multipliers": certificate.multipliers,
        "rows": problem.rows,
        "ties": problem.tie_rows,
        "tie_multipliers": certificate.tie_multipliers,
        "lower": np.float64(certificate.lower),
        "upper": np.float64(certificate.upper),
        "norm": np.str_(certificate.norm.name),
        "status": np.str_(certificate.status),
        "C": np.float64(certificate.budget),
    }

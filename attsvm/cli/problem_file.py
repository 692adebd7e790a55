"""Problem and solution files: what they hold and what it means."""

from __future__ import annotations

import codecs
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Floats, floats
from attsvm._utils.files import load_arrays
from attsvm.certificate import Certificate
from attsvm.cli.options import PROBLEMS
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_sets import relaxed
from attsvm.training.heads import HEADS, Head

# The arrays a problem file may hold; others are refused so that a misspelt name is not ignored.
KNOWN = (
    *("X", "z", "y", "v", "V", "penalty", "alpha", "select", "b", "keys", "mask", "attention"),
    *("p0", "W0", "K0", "Q0", "v0"),  # starting points
)

# The arrays of each head in a file, and how many axes they have.
ARRAYS: dict[str, dict[str, int]] = {
    "linear": {"v": 1},
    "relu": {"V": 2},
    "quadratic": {"v": 1, "penalty": 0},
}
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

    @property
    def start(self) -> dict[str, Any]:
        """The starting point of a run, by block: p0, W0, K0, Q0, v0 of the file."""
        return {name[0]: array for name, array in self.arrays.items() if name.endswith("0")}

    def head(self, name: str | None, seed: int) -> Head | Floats:
        """The prediction head of this name, with its arrays in the file; a vector is linear.

        Without a name the file decides: V makes a relu head, penalty a quadratic one, v alone a
        linear one. A named head whose v or V is not in the file is drawn by the seed, Gaussian of
        norm 1, V (d, d).
        """
        here = self.arrays
        kind = name or ("relu" if "V" in here else "quadratic" if "penalty" in here else "linear")
        if kind not in ARRAYS:
            raise Unsupported(f"unknown prediction head {kind!r}: known are {', '.join(ARRAYS)}")
        # Apart from the starting point's [seed, instance].
        rng = None if name is None else np.random.default_rng([seed, 0, 1])
        parts = [self._head_array(key, axes, kind, rng) for key, axes in ARRAYS[kind].items()]
        return parts[0][0] if kind == "linear" else HEADS[kind](*parts)

    def _head_array(self, key: str, axes: int, kind: str, rng: np.random.Generator | None) -> Any:
        """One array of a head with the stack axis in front, or one number; drawn if absent."""
        d = self.tokens.d
        if key not in self.arrays:
            if rng is None or not axes:
                draw = f", or draw one by --head {kind}" if axes else ""
                raise BadTokens(f"the file has no array {key}: the {kind} head needs it{draw}")
            drawn = rng.standard_normal((d,) * axes)
            return (drawn / np.linalg.norm(drawn))[None]
        values = floats(self.arrays[key], key).astype(np.float64)
        wanted = {0: "()", 1: f"({d},)", 2: f"({d}, width)"}[axes]
        if values.ndim != axes or (axes and (len(values) != d or not values.size)):
            raise BadTokens(
                f"{key} has shape {values.shape}; it must be {wanted} for the {kind} prediction "
                "head"
            )
        if not axes and values < 0:
            raise BadTokens(f"{key} is {float(values):g}: it must not be negative")
        return values[None] if axes else float(values)

    def problem(self, kind: str = "selection") -> Problem:
        """The problem of this kind, one of PROBLEMS."""
        if kind not in PROBLEMS:
            raise Unsupported(f"unknown problem {kind!r}: known are {', '.join(PROBLEMS)}")
        tokens, keep = self.tokens, self.selection
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


def read_training_file(
    path: Path, *, queries: str | None = None, sequence: bool = False, causal: bool = True
) -> Archive:
    """A problem file with labels; queries: the token that is the query, first or last.

    sequence: every position of X (S, L, d) is a query, of the tokens up to it if causal.
    """
    _refuse_text(path)
    if queries not in (None, "first", "last"):
        raise Unsupported(f"--queries is {queries!r}: it is first or last")
    if sequence and queries is not None:
        raise Unsupported("--queries and --sequence are two ways to make queries: give one")
    made = ("z", "keys", "mask") if sequence else ("z",) if queries is not None else ()

    def build(arrays: dict[str, Any]) -> Tokens:
        for name in made:
            if name in arrays:
                flag = "--sequence" if sequence else "--queries"
                raise BadTokens(
                    f"{path} holds an array {name}, which {flag} makes: drop one of them"
                )
        if "y" not in arrays:
            raise BadTokens(f"{path} has no array y: training needs labels, -1 or +1")
        labels = arrays["y"]
        if sequence:
            if labels.ndim == 2 and labels.shape == arrays["X"].shape[:2]:
                labels = labels.ravel()
            return Tokens.sequence(arrays["X"], causal=causal, labels=labels)
        return tokens_of(arrays if queries is None else arrays | {"z": queries})

    return read_problem(path, build=build)


def _refuse_text(path: Path) -> None:
    """Raises BadTokens when a file is a text, with the model that takes one."""
    if not path.is_file() or zipfile.is_zipfile(path):
        return
    with path.open("rb") as stream:
        start = stream.read(4096)
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        return
    if text.strip() and all(c.isprintable() or c.isspace() for c in text):
        raise BadTokens(
            f"{path} is not an .npz file but a text: train on its sentences with --model "
            "next-token, and on prose with --prose --ties besides"
        )


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

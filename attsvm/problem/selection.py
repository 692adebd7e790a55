"""Selection: which tokens each input keeps, and the exact comparison of token scores.

Differences of scores γ_it = y_i v·x_it have the right sign, however close two scores are. A
difference is formed in floats from x_iα − x_it. Where that is within its own rounding error of
zero (`rounding`, the one threshold for ties of scores), it is computed again exactly: by floats
that hold every product without error, or in rational numbers where a product leaves their range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from attsvm._utils.arrays import Bools, Floats, Ints, exact_product, rectangular, vector, whole
from attsvm._utils.expected import expect, shown, whole_instance
from attsvm._utils.result import Result, Summary
from attsvm.errors import BadSelection, BadTokens
from attsvm.problem.tokens import Tokens, checked_tokens
from attsvm.problem.weights import WeightBlocks, top_tokens

_EPS = float(np.finfo(np.float64).eps)
# Products of this size are sums of two floats.
_LEAST, _MOST = 1e-240, 1e240
# Wherever a selection is taken: one, or what `Selection.of` makes one of.
Kept: TypeAlias = "Selection | Sequence[Any] | NDArray[Any]"


@runtime_checkable
class AttendedPath(Protocol):
    """What a path shows of its end: the top tokens (B, n) among `places` token places."""

    @property
    def selection(self) -> Ints: ...
    @property
    def places(self) -> int: ...


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Result):
    """The kept tokens of each input: `kept` (n, T) booleans, and where the choice came from.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> keep = attsvm.Selection.of(tokens, [1])
    >>> keep.indices, keep.kept, keep.origin
    (array([1]), array([[False,  True, False]]), 'indices')
    """

    kept: Bools
    origin: str = "given"

    def __post_init__(self) -> None:
        if expect(self.origin, str, "origin") != "given":
            return  # `best` and `of` have checked it
        kept = self.kept
        if not isinstance(kept, np.ndarray) or kept.dtype != np.bool_ or kept.ndim != 2:
            raise BadSelection("kept must be a boolean array (n, T); build it with Selection.of")
        _check_rows(kept)

    @classmethod
    def best(cls, tokens: Tokens, v: Any) -> Selection:
        """The token of each input with the highest score y_i v·x_it.

        Scores are compared exactly where rounding would decide. Raises BadSelection, naming both,
        when two tokens of one input share the highest score: the theory asks for one best token.

        >>> import attsvm
        >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
        >>> attsvm.Selection.best(tokens, [0.2, 0.7]).indices
        array([0])
        """
        head = vector(v, checked_tokens(tokens).d)
        first, second = best_tokens(tokens, head)
        for i in (second >= 0).nonzero()[0].tolist():
            one, other = sorted((int(first[i]), int(second[i])))
            score = float(tokens.scores(head)[i, one])
            raise BadSelection(
                f"tokens {one} and {other} of input {i} share the highest score {score:.6g}; "
                "choose one with Selection.of"
            )
        kept = np.zeros((tokens.n, tokens.T), dtype=bool)
        kept[np.arange(tokens.n), first] = True
        return cls(kept, "scores")

    @classmethod
    def of(cls, tokens: Tokens, indices: Kept) -> Selection:
        """The given tokens: an index for each input (n,), lists of indices, or booleans (n, T).

        A Selection is returned unchanged, if its shape and the mask of these tokens allow it.

        >>> import attsvm
        >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
        >>> attsvm.Selection.of(tokens, [[0, 2]]).kept
        array([[ True, False,  True]])
        """
        n, T = checked_tokens(tokens).n, tokens.T
        if isinstance(indices, Selection):
            if indices.kept.shape != (n, T):
                raise BadSelection(
                    f"the selection has shape {indices.kept.shape}, the tokens ({n}, {T})"
                )
            _check_present(indices.kept, tokens)
            return indices
        if isinstance(indices, Sequence) and any(_is_list(entry) for entry in indices):
            kept = _from_lists(indices, n, T)
        else:
            array = rectangular(indices, "alpha", BadSelection)
            if array.dtype != np.bool_ and tokens.mask is None:
                return cls(_from_indices(array, n, T), "indices")
            kept = array.copy() if array.dtype == np.bool_ else _from_indices(array, n, T)
        if kept.shape != (n, T):
            raise BadSelection(f"select has shape {kept.shape}; it must be ({n}, {T})")
        _check_present(kept, tokens)
        _check_rows(kept)
        return cls(kept, "indices")

    @classmethod
    def attended(
        cls, path: AttendedPath | Tokens, W: Any = None, *, instance: int = 0
    ) -> Selection:
        """The token that each input attends to most: `attended(path)`, or `attended(tokens, W)`.

        Of a path it is the end of one instance. W: a custom matrix (d, dq), a prompt (d,),
        a pair or dict of factors K and Q, or a stack of these of which `instance` is taken.

        >>> import attsvm
        >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
        >>> attsvm.Selection.attended(tokens, [2.0, -1.0]).indices
        array([1])
        """
        if isinstance(path, Tokens):
            if W is None:
                raise BadTokens("tokens alone attend to nothing: give W, or a path instead of them")
            given = WeightBlocks.of(W, path.shape, instance=instance)
            top, places = top_tokens(path, given.matrix), path.T
        elif W is not None:
            raise BadTokens("W goes with tokens: Selection.attended(tokens, W)")
        else:
            if not isinstance(path, AttendedPath):
                raise BadTokens(f"a Path or Tokens attend to tokens, this is {shown(path)}")
            top = path.selection[whole_instance(instance, len(path.selection))]
            places = path.places
        kept = np.zeros((len(top), places), dtype=bool)
        kept[np.arange(len(top)), top] = True
        return cls(kept, "attention")

    @property
    def single(self) -> bool:
        """Whether each input keeps exactly one token."""
        return bool((self.kept.sum(axis=1) == 1).all())

    @property
    def indices(self) -> Ints:
        """The kept token of each input (n,). Raises BadSelection where an input keeps several."""
        if not self.single:
            i = int((self.kept.sum(axis=1) != 1).argmax())
            raise BadSelection(f"input {i} keeps several tokens; this needs exactly one")
        first: Ints = self.kept.argmax(axis=1)
        return first

    def _card(self) -> Summary:
        n, T = self.kept.shape
        said = f"{int(self.kept.sum()):,} of {n:,} × {T:,} tokens kept, by {self.origin}"
        chosen = [row.nonzero()[0].tolist() for row in self.kept[:12]]
        table = {"input": range(len(chosen)), "kept tokens": chosen}
        return Summary("Selection", said, {}, table, rows=n)


def _check_rows(kept: Bools) -> None:
    """Raises BadSelection unless every input keeps a token."""
    some = kept.any(axis=1)
    if not some.all():
        raise BadSelection(f"input {int(some.argmin())} keeps no token; select at least one")


def _check_present(kept: Bools, tokens: Tokens) -> None:
    """Raises BadSelection, with the token, where one is kept that the mask leaves out."""
    if tokens.mask is not None and (kept & ~tokens.mask).any():
        i, t = (int(k) for k in np.argwhere(kept & ~tokens.mask)[0])
        raise BadSelection(f"token {t} of input {i} is selected but masked out")


def _is_list(entry: Any) -> bool:
    return isinstance(entry, Sequence | np.ndarray) and not isinstance(entry, str | bytes)


def _from_indices(array: Any, n: int, T: int) -> Bools:
    """Booleans (n, T) from one index an input."""
    whole(array, "alpha", BadSelection)
    if array.shape != (n,):
        raise BadSelection(f"alpha has shape {array.shape}; it must be ({n},), one token an input")
    if array.min() < 0 or array.max() >= T:
        i = int(((array < 0) | (array >= T)).argmax())
        raise BadSelection(f"alpha[{i}] is {int(array[i])}; tokens run from 0 to {T - 1}")
    kept = np.zeros((n, T), dtype=bool)
    kept[np.arange(n), array.astype(np.int64)] = True
    return kept


def _from_lists(lists: Sequence[Any], n: int, T: int) -> Bools:
    """Booleans (n, T) from a list of indices, or a row of T booleans, for each input."""
    if len(lists) != n:
        raise BadSelection(f"{len(lists)} lists of tokens for {n} inputs; give one per input")
    kept = np.zeros((n, T), dtype=bool)
    for i, chosen in enumerate(lists):
        name = f"the selection of input {i}"
        array = np.atleast_1d(rectangular(chosen, name, BadSelection))
        if array.ndim != 1:
            raise BadSelection(f"{name} has shape {array.shape}; it must be a list of tokens")
        if array.dtype == np.bool_:
            if len(array) != T:
                raise BadSelection(f"{name} has {len(array)} booleans for {T} tokens")
            kept[i] = array
            continue
        whole(array, name, BadSelection)
        outside = (array < 0) | (array >= T)
        if outside.any():
            raise BadSelection(
                f"input {i} selects token {int(array[outside][0])}; tokens run from 0 to {T - 1}"
            )
        kept[i, array.astype(np.int64)] = True
    return kept


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
    scores = tokens.scores(head)
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

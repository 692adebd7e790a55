"""The rows of a selection as the gradient sees them, in numbers that are known to be right.

Row k = (i, t) is a_k = (k_iα − k_it) z_iᵀ for a token t ≠ α_i; its margin is m_k = ⟨a_k, W⟩. With
γ_t = y v·x_t, gap_k = γ_α − γ_t, o_i = Σ_t e^−m_it and f_i the head's value on input i,

    −∇L(W) = Σ_k q_k e^−m_k a_k,        q_k = (1/n) |ℓ'(f_i)| (f_i − γ_it) / (1 + o_i),

and q_k tends to q̂_k = (1/n) |ℓ'(γ_iα)| gap_k as the margins grow. Rows that are equal in every
digit act as one, whose q is the sum.

Keys and queries are scaled by powers of two to a moderate size; `unit` is the factor by which W
and steps in W are divided for it.

The tight rows are verified as the active set. For a set C of rows with a nonsingular Gram matrix G,
λ = G⁻¹1 > 0 and slack_k = ⟨a_k, Ŵ⟩ − 1 > 0 on all other rows, Ŵ = Σ_C λ_k a_k is the solution, by
its KKT conditions, and the rows of C are the tight ones. With an approximate inverse M of G and
δ ≥ ‖I − MG‖_∞ below 1, the solution x of G x = r lies within ‖M(r − G x°)‖_∞ / (1 − δ) of any x°:
so λ, Ŵ and every slack are enclosed, and the set is proved to be the active one although it was
found in floats. A row outside C may be tight only where its limit q̂_k is exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import Interval, differences, down, up
from attsvm.certificate.bounds import exponent
from attsvm.errors import AttsvmError, BadTokens, Unsupported
from attsvm.problem.selection import exact_gaps
from attsvm.problem.tokens import Tokens
from attsvm.training.losses import Loss, Steepness, encloses


class Pull(Protocol):
    """How strongly each row pulls when e^−m_k is at most e_k, for every k at once.

    Every array is (..., K) of merged rows; leading axes are for many values of e at once.
    """

    @property
    def limit(self) -> Interval:
        """q̂_k (K,)."""
        ...

    def error(self, e: Floats) -> Floats:
        """At least |q_k − q̂_k|; falls at least as fast as the largest e_k does."""
        ...

    def between(self, e: Floats) -> tuple[Floats, Floats]:
        """At most and at least q_k."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """K merged rows: D (K, d) differences of keys, Z (K, dq) queries, and their pull.

    inputs, places (K,): the input and the token of one member of each; zero (K,): the limit q̂_k is
    exactly zero; unit: what W is divided by; blur: by how much the relative rounding error of a gap
    of scores in floats may exceed that of its products, over the gaps that are positive.
    """

    D: Interval
    Z: Floats
    inputs: Ints
    places: Ints
    pull: Pull
    zero: Bools
    unit: float
    blur: float = 1.0

    @property
    def count(self) -> int:
        """K."""
        return len(self.Z)

    def name(self, k: int) -> tuple[int, int]:
        """(input, token) of row k."""
        return int(self.inputs[k]), int(self.places[k])

    def describe(self, k: int) -> str:
        """Row k in words."""
        return f"token {int(self.places[k])} of input {int(self.inputs[k])}"

    def names(self, index: Ints) -> Ints:
        """(input, token) of rows (j, 2)."""
        return np.stack([self.inputs[index], self.places[index]], axis=1).astype(np.int64)

    def index(self, names: Any) -> Ints:
        """The rows of (input, token) pairs (j, 2). Raises ValueError where one is named twice."""
        place = {self.name(k): k for k in range(self.count)}
        pairs = np.asarray(names, dtype=np.int64).reshape(-1, 2)
        found = np.array([place[int(i), int(t)] for i, t in pairs], dtype=np.int64)
        if len(np.unique(found)) != len(found):
            raise ValueError("a row is named twice")
        return found

    def margins(self, W: Floats) -> Interval:
        """m_k (K,) at W (d, dq), which is scaled already."""
        return (self.D * (Interval(self.Z) @ np.ascontiguousarray(W.T))).sum(axis=1)

    def gram(self, index: Ints) -> Interval:
        """⟨a_k, a_j⟩ (K, c) for all k and j in index."""
        return (self.D @ self.D[index].T) * (Interval(self.Z) @ self.Z[index].T)

    def squares(self) -> Interval:
        """‖a_k‖² (K,)."""
        return self.D.squared().sum(axis=1) * Interval(self.Z).squared().sum(axis=1)

    def combined(self, weights: Interval, index: Ints) -> Interval:
        """Σ_j weights_j a_j (d, dq) over index."""
        Z = Interval(self.Z[index])
        return self.D[index].T @ (Interval(weights.lo[:, None], weights.hi[:, None]) * Z)

    def gathered(self, names: Any, weights: Floats) -> Floats:
        """The weights of rows (input, kept token, token) added up by merged row, (K,)."""
        place = {self.name(k): k for k in range(self.count)}
        out = np.zeros(self.count)
        for (i, _, t), weight in zip(names, weights, strict=True):
            k = place.get((int(i), int(t)))
            if k is not None:
                out[k] += weight
        return out


def rows_of(tokens: Tokens, alpha: Ints, v: Floats, loss: Loss) -> Rows:
    """The rows of one token per input under the linear head v (d,).

    Raises BadTokens where a token has the key of the kept one, or a query is zero: softmax then
    never settles on one token.
    """
    if loss.steepness is None:
        raise Unsupported(
            f"no convergence is proved for loss {loss.name!r}: it is for losses that fall "
            "everywhere and say how steeply (logistic, exponential, linear)"
        )
    kept = tokens.scores(v)[np.arange(tokens.n), alpha]
    if not encloses(loss, kept):
        raise Unsupported(
            f"loss {loss.name!r} does not fall at the scores of the kept tokens, or not as steeply "
            "as its `steepness` says: no convergence is proved for it"
        )
    source = np.arange(tokens.n) if tokens.source is None else tokens.source
    present = tokens.present()
    rivals = present.copy()
    rivals[np.arange(tokens.n), alpha] = False
    inputs, places = rivals.nonzero()
    keys = np.asarray(tokens.keys, dtype=np.float64)
    steepness = loss.steepness
    single = Singles(
        keys[source[inputs], alpha[inputs]],
        keys[source[inputs], places],
        np.asarray(tokens.queries, dtype=np.float64)[inputs],
        inputs,
        places,
    )

    def pull_of(group: Ints) -> TokenPull:
        return TokenPull.of(tokens, alpha, v, steepness, (inputs, places, group))

    found = merge_rows(single, alpha, (shift_of(keys), shift_of(tokens.queries)), pull_of)
    pull: Any = found.pull
    X, of = np.asarray(tokens.X, dtype=np.float64), source[inputs]
    return replace(found, blur=_blur(X[of, alpha[inputs]] - X[of, places], v, pull.gap))


class Singles(NamedTuple):
    """Rows one by one: keys of the kept and of the other token (k, d), queries (k, dq), and the
    input and the place of the other token (k,)."""

    high: Floats
    low: Floats
    Z: Floats
    inputs: Ints
    places: Ints


def merge_rows(
    single: Singles, alpha: Ints, shifts: tuple[int, int], pull_of: Callable[[Ints], Pull]
) -> Rows:
    """Rows with equal ones made one. shifts: powers of two by which keys and queries are divided;
    pull_of: the pull, from the merged row of every single one."""
    high, low, Z, inputs, places = single
    _check_rows(single, alpha)
    first, group = _merged(high, low, Z)
    a, q = shifts
    D = differences(np.ldexp(high[first], -a), np.ldexp(low[first], -a))
    pull = pull_of(group)
    zero = (pull.limit.lo == 0) & (pull.limit.hi == 0)
    unit = float(np.ldexp(1.0, -(a + q)))
    return Rows(D, np.ldexp(Z[first], -q), inputs[first], places[first], pull, zero, unit)


def _blur(apart: Floats, v: Floats, gap: Interval) -> float:
    """The largest Σ_j |x_α − x_t|_j |v_j| / gap, at least 1; apart (k, d): x_α − x_t."""
    good = gap.lo > 0
    return float(((np.abs(apart) @ np.abs(v))[good] / gap.lo[good]).max(initial=1.0))


def shift_of(x: Floats) -> int:
    """The power of two that brings x near 1, 0 where that would not be exact."""
    e = exponent(x)
    return e if np.array_equal(np.ldexp(np.ldexp(x, -e), e), x) else 0


def _check_rows(single: Singles, alpha: Ints) -> None:
    high, low, Z, inputs, places = single
    same = (high == low).all(axis=1) if len(high) else np.zeros(0, dtype=bool)
    if same.any():
        k = int(same.argmax())
        i, t = int(inputs[k]), int(places[k])
        raise BadTokens(
            f"token {t} of input {i} has the same key as the kept token {int(alpha[i])}: attention "
            "never settles on one of them"
        )
    blank = ~Z.any(axis=1) if len(Z) else np.zeros(0, dtype=bool)
    if blank.any():
        i = int(inputs[int(blank.argmax())])
        raise BadTokens(f"the query of input {i} is zero: its attention stays uniform")


def _merged(high: Floats, low: Floats, Z: Floats) -> tuple[Ints, Ints]:
    """A member of each set of equal rows (K,), and the set of every row."""
    if not len(high):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    listed: dict[bytes, int] = {}
    table = np.concatenate([high, low, Z], axis=1) + 0.0  # −0 and 0 are one number
    group = np.array([listed.setdefault(row.tobytes(), len(listed)) for row in table])
    first = np.zeros(len(listed), dtype=np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]
    return first, group


@dataclass(frozen=True, eq=False)
class TokenPull:
    """The pull of tokens under a linear head: gap (k,) of single rows, top (n,) the kept scores.

    owner (k,): the input of each row; group (k,): the merged row it belongs to.
    """

    limit: Interval
    gap: Interval
    top: Interval
    owner: Ints
    group: Ints
    steepness: Steepness

    @classmethod
    def of(
        cls,
        tokens: Tokens,
        alpha: Ints,
        v: Floats,
        steepness: Steepness,
        names: tuple[Ints, Ints, Ints],
    ) -> TokenPull:
        """The pull of the rows (inputs, places, group)."""
        inputs, places, group = names
        source = np.arange(tokens.n) if tokens.source is None else tokens.source
        X = np.asarray(tokens.X, dtype=np.float64)
        y = np.ones(tokens.n) if tokens.labels is None else tokens.labels
        kept = X[source, alpha]
        high, low = kept[inputs], X[source[inputs], places]
        gap = (differences(high, low) @ v) * y[inputs]
        gap = _signed(gap, high, low, v, y[inputs])
        top = (Interval(kept) @ v) * y
        least, most, _ = steepness(top.lo, top.hi)
        single = Interval(least, most)[inputs] * gap / float(tokens.n)
        exact = (gap.lo == 0) & (gap.hi == 0)
        single = Interval(np.where(exact, 0.0, single.lo), np.where(exact, 0.0, single.hi))
        return cls(sum_intervals_by(single, group), gap, top, inputs, group, steepness)

    def error(self, e: Floats) -> Floats:
        """(1/n)[(M1 + M0 |gap|) φ_i + |ℓ'(γ_α)| |gap| o_i], φ_i ≥ |f_i − γ_iα|."""
        single = e[..., self.group]
        below, over, o = self._spread(single)
        _, slope, bend = self._steep(below, over)
        moved = np.maximum(below, over)[..., self.owner]
        size = self.gap.size
        part = (slope[..., self.owner] + bend[..., self.owner] * size) * moved
        part = part + slope[..., self.owner] * size * o[..., self.owner]
        grow = 1 + (16 + len(self.owner)) * _U
        return sum_by(up(part * grow) / len(self.top.lo), self.group, e.shape)

    def between(self, e: Floats) -> tuple[Floats, Floats]:
        """|ℓ'|_min (gap − φ)/(1 + o) where that is positive, |ℓ'|_max (gap − φ) where it is not;
        and |ℓ'|_max (gap + φ) likewise."""
        single = e[..., self.group]
        below, over, o = self._spread(single)
        least, most, _ = self._steep(below, over)
        n = len(self.top.lo)
        out = []
        low = self.gap.lo - below[..., self.owner]
        high = self.gap.hi + over[..., self.owner]
        for bound, sign in ((low, -1.0), (high, 1.0)):
            far, near = most[..., self.owner], least[..., self.owner]
            near = near / (1 + o[..., self.owner])
            value = bound * np.where((bound > 0) == (sign > 0), far, near)
            value = value + sign * (32 + len(self.owner)) * _U * np.abs(value)
            out.append(sum_by(value / n, self.group, e.shape))
        return out[0], out[1]

    def _spread(self, single: Floats) -> tuple[Floats, Floats, Floats]:
        """How far f_i may lie below and above γ_iα, and o_i: (..., n) each."""
        shape = (*single.shape[:-1], len(self.top.lo))
        grow = 1 + (self.owner.size + 4) * _U
        parts = []
        for weight in (np.maximum(self.gap.hi, 0.0), np.maximum(-self.gap.lo, 0.0), 1.0):
            # An e_k beyond all floats pulls beyond all floats, or, without a gap, not at all.
            part = np.where(weight == 0, 0.0, single) * weight
            parts.append(sum_by(part, self.owner, shape) * grow)
        return parts[0], parts[1], parts[2]

    def _steep(self, below: Floats, over: Floats) -> tuple[Floats, Floats, Floats]:
        return self.steepness(
            self.top.lo - up(below * (1 + 2 * _U)), self.top.hi + up(over * (1 + 2 * _U))
        )


_U = 2.0**-53


def sum_by(values: Floats, index: Ints, shape: tuple[int, ...]) -> Floats:
    """values (..., k) added up by index into (..., K)."""
    flat = values.reshape(-1, values.shape[-1])
    out = np.zeros((len(flat), shape[-1]))
    for row, total in zip(flat, out, strict=True):
        total += np.bincount(index, weights=row, minlength=shape[-1])
    return out.reshape(shape)


def sum_intervals_by(single: Interval, group: Ints) -> Interval:
    """The sums of intervals by group."""
    if not len(group):
        return single
    count = int(group.max()) + 1
    low, high = (np.bincount(group, weights=end, minlength=count) for end in (single.lo, single.hi))
    size = np.bincount(group, weights=single.size, minlength=count)
    members = np.bincount(group, minlength=count)
    slack = np.where(members > 1, (members + 2) * _U * size, 0.0)
    return Interval(low - slack, high + slack)


def _signed(gap: Interval, high: Floats, low: Floats, v: Floats, y: Floats) -> Interval:
    """The gaps, those whose sign the rounding hides computed exactly."""
    doubtful = ((gap.lo <= 0) & (gap.hi >= 0)).nonzero()[0]
    if not len(doubtful):
        return gap
    lower, upper = gap.lo.copy(), gap.hi.copy()
    near = exact_gaps(high[doubtful], low[doubtful], v) * y[doubtful]
    # Correctly rounded and of the right sign: the number is between the neighbours of its float.
    lower[doubtful] = np.where(near > 0, np.maximum(down(near), 0.0), down(near) * (near != 0))
    upper[doubtful] = np.where(near < 0, np.minimum(up(near), 0.0), up(near) * (near != 0))
    return Interval(lower, upper)


# How often rows may enter and leave the set that the solver found.
_ROUNDS = 12


class NotVerified(AttsvmError):
    """No active set could be verified: why, and the row it hangs on (None for the whole set)."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, eq=False)
class Active:
    """A verified active set: C (c,), its Gram rows G (K, c), and what follows from them.

    inverse (c, c) is M, defect is δ. lam (c,) the multipliers, N = ‖Ŵ‖; slack, length, across (K,):
    the slack of every row, ‖a_k‖, and the length of the part of a_k orthogonal to Ŵ.
    """

    C: Ints
    G: Interval
    inverse: Floats
    defect: float
    lam: Interval
    square: Interval
    N: Interval
    slack: Interval
    length: Interval
    across: Interval

    def solve(self, right: Interval) -> Interval:
        """The x of G_C x = right, (c,) or (c, j), enclosed."""
        return _enclosed(self.G[self.C], self.inverse, self.defect, right)


def _enclosed(G: Interval, M: Floats, defect: float, right: Interval) -> Interval:
    x = M @ right.mid
    residual = Interval(M) @ (right - G @ x)
    error = residual.size.max(axis=0, initial=0.0) / (1 - defect)
    return Interval.near(x, up(error * (1 + 2.0**-50)))


def verify_active(rows: Rows, guess: Ints, *, settle: bool = True) -> Active:
    """The active set near a guess, or with `settle` False the guess itself.

    Raises NotVerified with the row on which it fails.
    """
    C = _settled(rows, guess) if settle else guess
    G = rows.gram(C)
    core = G[C]
    try:
        M: Floats = np.linalg.inv(core.mid).astype(np.float64)
    except np.linalg.LinAlgError as error:
        raise NotVerified("the tight rows are linearly dependent") from error
    gap = np.eye(len(C)) - Interval(M) @ core
    defect = float(up(gap.size.sum(axis=1) * (1 + (len(C) + 2) * 2.0**-53)).max(initial=0.0))
    if not defect < 0.5:
        raise NotVerified(
            "the tight rows are linearly dependent, or so nearly that floats cannot tell"
        )
    lam = _enclosed(core, M, defect, Interval(np.ones(len(C))))
    if not (lam.lo > 0).all():
        k = int(C[int(lam.lo.argmin())])
        raise NotVerified(f"the multiplier of {rows.describe(k)} is not known to be positive", k)
    square = lam.sum()
    slack = G @ lam - 1.0
    low, high = slack.lo.copy(), slack.hi.copy()
    low[C] = high[C] = 0.0
    slack = Interval(low, high)
    _check_slack(rows, C, slack)
    squares = rows.squares()
    across = (squares - (slack + 1.0).squared() / square).sqrt()
    return Active(C, G, M, defect, lam, square, square.sqrt(), slack, squares.sqrt(), across)


def _check_slack(rows: Rows, C: Ints, slack: Interval) -> None:
    outside = np.ones(rows.count, dtype=bool)
    outside[C] = False
    wrong = outside & ~((slack.lo > 0) | (rows.zero & (slack.lo >= 0)))
    if wrong.any():
        k = int(np.where(wrong, slack.lo, np.inf).argmin())
        raise NotVerified(
            f"{rows.describe(k)} has slack {slack.mid[k]:.1e} without a multiplier: the tight "
            "rows are dependent, or nearly",
            k,
        )


def not_good(rows: Rows, k: int) -> str:
    """Why a tight row whose pull is not known to be positive blocks a proof."""
    if not rows.zero[k] and rows.pull.limit.hi[k] >= 0:
        return f"{rows.describe(k)} is tight, and its pull is too near to 0 to have a sign"
    what = "as much as" if rows.zero[k] else "more than"
    return (
        f"the selection is not locally optimal: {rows.describe(k)} is tight and scores {what} the "
        "kept token"
    )


def _settled(rows: Rows, guess: Ints) -> Ints:
    """The guess after a few rounds in floats: negative multipliers leave, violated rows enter."""
    C = np.unique(guess)
    for _ in range(_ROUNDS):
        G = rows.gram(C).mid
        try:
            lam = np.linalg.solve(G[C], np.ones(len(C)))
        except np.linalg.LinAlgError:
            return C
        if len(C) > 1 and not (lam > 0).all():
            C = np.delete(C, int(lam.argmin()))
            continue
        slack = G @ lam - 1
        slack[C] = 0.0
        worst = int(slack.argmin())
        if slack[worst] >= -1e-9 or len(C) >= rows.D.lo.shape[1] * rows.Z.shape[1]:
            return C
        C = np.unique(np.append(C, worst))
    return C

"""The power cone: mirror descent under ‖W‖_p^p/p keeps to a cone round the ℓp max-margin W̃.

With the dual variable Y = sign(W)|W|^(p−1) and 1/p + 1/q = 1, the cosine is

    c_p(W) = ⟨Y, W̃⟩ / (‖Y‖_q ‖W̃‖_p),

and K = {c_p ≥ 1 − u, ‖W‖_p ≥ R} is kept by all steps of dual length at most h along the gradient
if `slope` ≥ `turn` below; then c_p tends to 1. With w = W̃/‖W̃‖_p and x = W/‖W‖_p,
1 − c_p(W) = Σ_j d(w_j, x_j), where

    d(w, x) = |w|^p/p + |x|^p/q − w sign(x)|x|^(p−1)        ≥ 0 (Young),

so that every entry's distance is bounded by itself, and ⟨a, x − w⟩ by a sum over entries.

docs/convergence-power.md has the theorem with its proof. Arrays (g, K): g values of u, K rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm._utils.interval import Interval, down, total, up
from attsvm.theory.convergence.rows import Rows
from attsvm.theory.convergence.theorems import ConeConstants, scaled_axis

# How often the radius of each entry is tightened; how many multipliers and shares of entries are
# tried in the bound on a margin for p > 2.
_ROUNDS, _MULTIPLIERS = 6, 24
_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0)
# Values of u = 1 − c₀ that are tried, between that of W and the widest cone.
_TRIED, _LEAST, _MOST = 48, 1e-6, 0.2
GROW = 1 + 2.0**-44
# Below this a number counts as one that may be zero.
_NIL = 1e-300


def power_of(x: Interval, s: Interval | float) -> Interval:
    """x^s for x ≥ 0 and an s of one sign."""
    found = (Interval(np.maximum(x.lo, _NIL), np.maximum(x.hi, _NIL)).log() * s).exp()
    if float(Interval.of(s).lo) > 0:
        return Interval(np.where(x.lo > _NIL, found.lo, 0.0), np.where(x.hi > 0, found.hi, 0.0))
    return Interval(found.lo * (x.hi > _NIL), np.where(x.lo > _NIL, found.hi, np.inf))


@dataclass(frozen=True, eq=False)
class Exponent:
    """p > 1 as the optimizer has it, and the constants that hang on it alone.

    q = p/(p − 1). bend: κ_p for p > 2, the largest with |w|^p ≥ |x|^p + p x^(p−1)(w − x) +
    κ|w − x|^p, rounded down. lift: C_q for q < 2, the least with |y + z|^q ≤ |y|^q + q y^(q−1) z +
    C|z|^q, rounded up. Both are 0 for p ≤ 2, where they are not used. even: α_p, at most
    d(x, w)/d(w, x) for all numbers.
    """

    p: float
    q: Interval
    bend: float
    lift: float
    even: float

    @classmethod
    def of(cls, p: float) -> Exponent:
        """The exponent of an optimizer."""
        q = Interval(p) / (Interval(p) - 1.0)
        if p <= 2:
            return cls(p, q, 0.0, 0.0, _even(Interval(p), q))
        bend, lift = float(_extreme(Interval(p)).lo), float(_extreme(q).hi)
        return cls(p, q, bend, lift, _even(q, Interval(p)))

    @property
    def less(self) -> Interval:
        """p − 1."""
        return Interval(self.p) - 1.0


def _extreme(s: Interval) -> Interval:
    """(s − 1)(1 + τ)^(2−s), τ > 0 the root of τ^(s−1) = (s − 1)τ + s − 2: κ_s or C_s."""
    one, x = s - 1.0, float(s.mid)

    def value(tau: float) -> Interval:
        return power_of(Interval(tau), one) - one * tau - (s - 2.0)

    low, high = 1e-3, 1e-3
    sign = 1.0 if x > 2 else -1.0
    while high < 1e9 and not (value(high) * sign).lo > 0:
        high *= 2
    for _ in range(100):
        middle = 0.5 * (low + high)
        if (value(middle) * sign).lo > 0:
            high = middle
        elif (value(middle) * sign).hi < 0:
            low = middle
        else:
            break
    # Between low and high the value changes its sign once: it is convex or concave, and not zero
    # at τ = 0.
    return one * power_of(Interval(low, high) + 1.0, 2.0 - s)


def _even(p: Interval, q: Interval) -> float:
    """At most d(x, w)/d(w, x), p ≤ 2: the least over cells of t = −x/w in [0, 1], and p − 1.

    Numerator and denominator both grow with t, so that each cell is bounded by its ends.
    """
    t = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 8001)])
    low, high = Interval(t[:-1]), Interval(t[1:])
    above = power_of(low, p) / p + 1.0 / q + low
    below = 1.0 / p + power_of(high, p) / q + power_of(high, p - 1.0)
    least = min(float((above / below).lo.min()), float((p - 1.0).lo))
    return max(least * (1 - 1e-12), 0.0)


def rescale(x: Interval) -> tuple[Interval, int]:
    """x divided by the power of two 2^k that brings its largest entry to [1, 2), and k.

    k is 0 where the division would not be exact.
    """
    k = int(np.frexp(x.size.max(initial=0.0))[1]) - 1
    found = Interval(np.ldexp(x.lo, -k), np.ldexp(x.hi, -k))
    same = all(
        np.array_equal(np.ldexp(end, k), was) for end, was in ((found.lo, x.lo), (found.hi, x.hi))
    )
    return (found, k) if same else (x, 0)


def length(x: Interval, s: Interval | float, axis: tuple[int, ...]) -> Interval:
    """(Σ |x|^s)^(1/s) along axes."""
    x, k = rescale(x)
    size = Interval(
        np.where((x.lo <= 0) & (x.hi >= 0), 0.0, np.minimum(np.abs(x.lo), np.abs(x.hi))), x.size
    )
    powers = power_of(size, s)
    for one in sorted(axis, reverse=True):
        powers = powers.sum(axis=one)
    found = power_of(powers, Interval(1.0) / s)
    return Interval(np.ldexp(found.lo, k), np.ldexp(found.hi, k))


@dataclass(frozen=True, eq=False)
class PowerAxis:
    """W̃ with all margins at least 1, and μ, a probability vector on the rows.

    w (d, dq): |W̃|/N; N = ‖W̃‖_p; slack, length (K,): ⟨a_k, W̃⟩ − 1 and ‖a_k‖_q. With U = Σ μ_k a_k:
    wide = N‖U‖_q ≥ 1, the ratio of the two bounds on the least norm; over = ⟨U, W̃⟩ − 1, and tilt =
    N‖U − ⟨U, W̃⟩ ∇‖W̃‖_p/N‖_q, both 0 for the solution itself.
    """

    exponent: Exponent
    W: Floats
    mu: Interval
    N: Interval
    w: Interval
    slack: Interval
    length: Interval
    wide: float
    over: float
    tilt: float

    @staticmethod
    def near(rows: Rows, W: Floats, multipliers: Floats, p: float) -> PowerAxis | None:
        """A feasible W and multipliers ≥ 0 of any scale; None where a margin is not positive."""
        found = scaled_axis(rows, W, multipliers)
        if found is None:
            return None
        W, margins, mu = found
        exponent = Exponent.of(p)
        U = rows.combined(mu, np.arange(rows.count))
        N = length(Interval(W), p, (0, 1))
        wide = length(U, exponent.q, (0, 1)) * N
        slack = margins - 1.0
        w = Interval(np.abs(W)) / N
        reached = (mu * margins).sum()
        slope = power_of(w, exponent.less) * np.sign(W)
        tilt = length(U - slope * (reached / N), exponent.q, (0, 1)) * N
        own = length(rows.D, exponent.q, (1,)) * length(Interval(rows.Z), exponent.q, (1,))
        return PowerAxis(
            exponent,
            W,
            mu,
            N,
            w,
            Interval(np.maximum(slack.lo, 0.0), slack.hi),
            own,
            float(max(wide.hi, 1.0)),
            float(max((reached - 1.0).hi, 0.0)),
            float(tilt.hi),
        )

    # The theorem, and what its proofs call the width of a cone.
    theorem, key = "power cone", "u"

    def locate(self, W: Floats) -> tuple[float, float]:
        """At least 1 − c_p(W), and at most ‖W‖_p."""
        # c_p does not depend on the size of W, and the powers stay in range.
        x, k = rescale(Interval(W))
        Y = power_of(Interval(np.abs(x.lo)), self.exponent.less)
        top = (Y * (np.sign(W) * self.W)).sum()
        R = length(x, self.exponent.p, (0, 1))
        c = top / (power_of(R, self.exponent.less) * self.N)
        return float(np.clip((1.0 - c).hi, 0.0, 2.0)), float(np.ldexp(R.lo, k))

    def widths(self, u: float) -> Floats:
        """Values of 1 − c₀ to try for a W of this distance, the first its own."""
        if not u < _MOST:
            return np.empty(0)
        return up(np.concatenate([[u], np.geomspace(max(u, _LEAST), _MOST, _TRIED)]))

    def holds(self, u0: float, u: float) -> bool:
        """Whether the cone 1 − c₀ = u₀ holds a W of this distance."""
        return u <= u0 * (1 + 2.0**-40) < 1

    def measure(self, rows: Rows, R: float, u: Floats, lr: float, *, plain: bool) -> ConeConstants:
        """The constants of the cones u (g,) from norm R on, for a step in units of the data."""
        return measure_power(rows, self, R, u, lr, plain=plain)

    def claims(
        self, found: ConeConstants, j: int, R: float, u: float, unit: float
    ) -> dict[str, float]:
        """The constants of cone j by name, in the units of the data."""
        return {
            "p": self.exponent.p,
            "u": float(found.at[j]),
            "c0": float(1 - found.at[j]),
            "R": R * unit,
            "distance": u,
            "N": float(self.N.hi) * unit,
            **found.claims(j, 1.0),
            "wide": self.wide,
        }


def whole(axis: PowerAxis, u: Floats) -> Floats:
    """At least ‖V − W̃‖_p/N for V of the cone."""
    p = axis.exponent.p
    if p <= 2:
        return np.asarray((Interval(2 * u) / axis.exponent.less).sqrt().hi)
    return np.asarray(power_of(Interval(u) * p / axis.exponent.bend, Interval(1.0) / p).hi)


@np.errstate(all="ignore")  # an entry that may vanish has no inverse
def radii(axis: PowerAxis, u: Floats) -> tuple[Floats, Floats]:
    """How far each entry of a direction of the cone may lie from w, and 1/ω there, (g, d, dq).

    For p > 2 the inverse is infinite where the entry may vanish.
    """
    p, w = axis.exponent.p, axis.w
    u3 = Interval(u[:, None, None])
    if p <= 2:
        less = 2.0 - Interval(p)
        scale = (u3 * 2.0 / axis.exponent.less).sqrt()
        r = np.broadcast_to(scale.hi, (len(u), *w.lo.shape))
        for _ in range(_ROUNDS):
            r = np.minimum(r, (scale * power_of(_beyond(w, r), less * 0.5)).hi)
        return r, (power_of(_beyond(w, r), less) / axis.exponent.less).hi
    power = power_of(u3 * p / axis.exponent.bend, Interval(1.0) / p)
    r = np.broadcast_to(power.hi, (len(u), *w.lo.shape))
    inverse = np.full(r.shape, np.inf)
    for _ in range(_ROUNDS):
        weight = axis.exponent.less * _held(axis, r)
        known = weight.lo > _NIL
        bound = (1.0 / Interval(np.where(known, weight.lo, 1.0))).hi
        inverse = np.minimum(inverse, np.where(known, bound, np.inf))
        r = np.minimum(r, (Interval(inverse) * u3 * 2.0).sqrt().hi)
    inside = r < axis.w.lo
    return r, np.where(inside, inverse, np.inf)


def _beyond(w: Interval, r: Floats) -> Interval:
    """|w| + ⅔ r, at most."""
    return Interval(up(w.hi + up(r * (2 / 3 + 1e-15))))


def _held(axis: PowerAxis, r: Floats) -> Interval:
    """At most ∫ 2s (|w| − s r)^(p−2) ds for p > 2, zero where r ≥ |w|."""
    p, w = axis.exponent.p, axis.w
    less = Interval(p) - 2.0
    if p >= 3:
        low = power_of(Interval(np.maximum(down(w.lo - up(r * (2 / 3 + 1e-15))), 0.0)), less).lo
    else:
        inner = power_of(Interval(np.maximum(down(w.lo - r), 0.0)), less).lo
        low = down((power_of(Interval(w.lo), less).lo + 2 * inner) / 3 * (1 - 2.0**-50))
    return Interval(np.where(r < w.lo, np.maximum(low, 0.0), 0.0))


def stretch_weights(axis: PowerAxis, r: Floats, theta: Floats) -> Floats:
    """((|w| + r)^(p−1) + θ)^(q−2) of each entry, p ≤ 2: the weights of ∇²‖·‖_q near the cone."""
    far = power_of(axis.w + r, axis.exponent.less).hi
    return np.asarray(power_of(Interval(up(far + theta[:, None, None])), axis.exponent.q - 2.0).hi)


def lengths(rows: Rows, weight: Floats) -> Floats:
    """√(Σ_j weight_j a_kj²) (g, K), rounded up."""
    D, Z = rows.D.squared().hi, Interval(rows.Z).squared().hi
    inner = np.matmul(D, np.where(np.isfinite(weight), weight, 0.0))
    count = sum(weight.shape[1:]) + 16
    found = np.sqrt((inner * Z).sum(axis=2)) * (1 + count * 2.0**-52)
    return np.asarray(found * GROW)


def spread_of(rows: Rows, axis: PowerAxis, u: Floats, inverse: Floats) -> Interval:
    """How far ⟨a_k, V⟩ may lie from ⟨a_k, W̃⟩ for V of the cone, (g, K), rounded up."""
    N = float(axis.N.hi)
    if axis.exponent.p <= 2:
        found = lengths(rows, inverse) * np.sqrt(2 * u)[:, None]
        far = whole(axis, u)[:, None] * axis.length.hi
        return Interval(up(np.minimum(found, far) * N * GROW))
    best = np.full((len(u), rows.count), np.inf)
    top = inverse.reshape(len(u), -1)
    for share in _SHARES:
        # The entries with the largest 1/ω go by the power bound, the others by the square.
        cut = np.quantile(np.minimum(top, 1e300), 1 - share, axis=1)[:, None, None]
        by_power = ~np.isfinite(inverse) | (inverse > cut) if share < 1 else inverse >= 0
        square = lengths(rows, np.where(by_power, 0.0, inverse)) ** 2
        best = np.minimum(best, _conjugate(axis, u, square, _powers(rows, axis, by_power)))
    return Interval(up(best * N * GROW))


def _powers(rows: Rows, axis: PowerAxis, chosen: Bools) -> Floats:
    """Σ |a_kj|^q over the chosen entries (g, K), rounded up."""
    D = power_of(Interval(rows.D.size), axis.exponent.q).hi
    Z = power_of(Interval(np.abs(rows.Z)), axis.exponent.q).hi
    found = (np.matmul(D, chosen.astype(np.float64)) * Z).sum(axis=2)
    return np.asarray(found * (1 + (sum(chosen.shape[1:]) + 16) * 2.0**-52))


def _conjugate(axis: PowerAxis, u: Floats, square: Floats, powers: Floats) -> Floats:
    """min over λ > 0 of λu + square/(2λ) + (λκ)^(1−q) powers/q, (g, K), rounded up.

    Every λ gives a bound, so that it may be chosen in floats.
    """
    q, kappa = axis.exponent.q, axis.exponent.bend
    width = u[:, None]
    near = np.sqrt(square / (2 * width)) + 1e-300
    far = (powers / float(q.mid) / (kappa ** float((q - 1.0).mid) * width)) ** (1 / float(q.mid))
    base = np.maximum(near, far)
    power = float((1.0 - q).mid)
    rest = kappa**power * powers / float(q.mid)
    best, chosen = np.full(square.shape, np.inf), base
    for times in np.geomspace(0.3, 3.0, _MULTIPLIERS):
        lam = base * times
        value = lam * width + square / (2 * lam) + rest * lam**power
        chosen = np.where(value < best, lam, chosen)
        best = np.minimum(best, value)
    last = power_of(Interval(chosen) * kappa, 1.0 - q) * powers / q
    return np.asarray((chosen * width + square / (2 * chosen) + last.hi) * GROW)


# Good rows this far beyond the tight ones are taken out of the logarithm in ε.
_BEYOND = 3.0


@np.errstate(all="ignore")  # what overflows is not proved
def measure_power(
    rows: Rows, axis: PowerAxis, R: float, u: Floats, lr: float, *, plain: bool
) -> ConeConstants:
    """The constants of the cones c_p ≥ 1 − u (g,) from norm R on, for steps of dual length at most
    lr, or with `plain` lr times the gradient; lr is in the units of the data."""
    N, c = axis.N, up(1.0 - u)
    r = Interval(R) / N
    radius, inverse = radii(axis, u)
    spread = spread_of(rows, axis, u, inverse)
    least = (axis.slack + 1.0) - spread
    e = (-(r * least)).exp()
    low, high = rows.pull.between(e.hi)
    good, held = low > 0, axis.mu.hi > 0
    ratio = (Interval(np.where(good, low, 1.0)) / np.where(held, axis.mu.hi, 1.0)).log()
    log_Z = np.where(held, (axis.mu * ratio).lo, 0.0)
    log_Z = log_Z.sum(axis=1) - rows.count * 2.0**-52 * np.abs(log_Z).sum(axis=1)
    ahead = least - axis.wide
    x = r * ahead
    damp = (-x - log_Z[:, None]).exp().hi
    size = np.maximum(np.abs(low), np.abs(high))
    B = np.where(good | (size == 0), 0.0, up(size * damp))
    grown = up(axis.slack.hi + 1.0)
    beta = total(B * grown)
    wider = total(B * (grown + spread.hi))
    speed = _speed(good, B, axis.length.hi)
    h = np.full(len(u), lr)
    if plain:
        h = h * speed / rows.unit * total(np.where(good, high, 0.0) * e.hi) * GROW
    # θ = h/‖Y‖_q with ‖Y‖_q = ‖W‖_p^(p−1): the power may leave the range of floats, θ does not.
    theta = up(h * power_of(Interval(R) * rows.unit, -axis.exponent.less).hi * GROW)
    out = good & ~held & (x.lo >= _BEYOND)
    inside = Interval(total(np.where(good & ~out, high, 0.0))).log().hi
    rest = total(np.where(out, up(high * damp) * x.hi, 0.0))
    epsilon = (np.maximum(up(inside - log_Z), 0.0) + rest) / float(r.lo) * GROW + wider
    turn = _turn(axis, theta, speed)
    if axis.exponent.p <= 2:
        near = lengths(rows, stretch_weights(axis, radius, theta))
        turn = np.minimum(turn, _turn(axis, theta, _speed(good, B, near)))
    turn = up(turn * c * GROW)
    top = _top(axis, u)
    slope = down(1 - beta - c * (top + epsilon) * GROW)
    floor = np.where(good, least.lo, np.inf).min(axis=1, initial=np.inf)
    pulls = ~good & (size > 0) & ~(ahead.lo > 0)
    fits = (
        (u > 0)
        & (u < 1)
        & (least.lo > 0).all(axis=1)
        & ~pulls.any(axis=1)
        & (good | ~held).all(axis=1)
        & (beta < 1)
        & (wider < floor)
        & (c * axis.wide * GROW <= 1)
        & (down(1 - beta) >= up(theta * c * (1 + axis.over) * GROW))
        & (slope >= turn)
    )
    return ConeConstants(u, slope, turn, beta, epsilon, h, (r * least).lo.min(axis=1), pulls, fits)


def _top(axis: PowerAxis, u: Floats) -> Floats:
    """At least Σ μ_k v_k where c_p = 1 − u: by Hölder, and by how far V is from W̃."""
    far = whole(axis, u) * axis.tilt
    near = (1 + axis.over) * (1 - axis.exponent.even * u) + far
    return np.asarray(np.minimum(up(near * GROW), axis.wide))


def _turn(axis: PowerAxis, theta: Floats, speed: Floats) -> Floats:
    """ξ N A for θ = h/‖Y‖_q: what a step adds to ‖Y‖_q beyond first order."""
    q = axis.exponent.q
    if axis.exponent.p <= 2:
        bent = float((q - 1.0).hi) * theta / 2
    else:
        bent = axis.exponent.lift * power_of(Interval(theta), q - 1.0).hi / float(q.lo)
    return up(bent * float(axis.N.hi) * speed * GROW)


def _speed(good: Bools, B: Floats, size: Floats) -> Floats:
    """A: the largest size of a good row, and the bad ones by their weight."""
    found = np.where(good, size, 0.0).max(axis=1, initial=0.0) + total(B * size)
    return np.asarray(found * GROW)

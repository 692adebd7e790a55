"""Rates: which shape a decaying measure follows, with errors, and whether the run is long enough.

A shape is a family of functions of time, linear in its parameters once logs are taken:

    log value = log c + s(log t)          fixed shapes, such as 1/log t: the constant is fitted
    log value = log c − a s(log t)        free shapes, such as t^-a: constant and exponent are

Everything is computed from log t, so that a clock that reaches e^120 is as good as one of steps.
A fit looks at a tail window, a share of the range of log t, cut into equal bins of log t whose
means are the observations; so crowded late records count no more than sparse early ones.

Standard errors: successive errors of a run are alike, so the window is cut into consecutive
blocks and only the sums of each block are taken for independent (the sandwich estimate with
blocks as clusters). They are too small by a factor of up to two where the noise
remembers as long as a block lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attsvm._utils.arrays import Floats, numbers
from attsvm.errors import BadTokens, Unsupported

Clock = Literal["t", "log t"]
NOT_YET = "not yet asymptotic"

# Bins of a window at most, blocks of bins, and the bins that a fit needs at least.
_BINS = 64
_BLOCKS = 8
_LEAST = 8
# Halves of the window whose fits differ by more than this share show that the constant drifts.
DRIFT = 0.05
# Beyond this log t the exponential of t overflows, and no exponential could be seen.
_LATEST = 700.0
# How many times worse than the best the runner-up must predict the late half.
CLEAR = 2.0
# Predictions are not distinguished below this (in log units).
_EXACT = 1e-10


@dataclass(frozen=True)
class Shape:
    """s as a function of log t, whether it has an exponent, and the log t it begins after.

    >>> shape = SHAPES["t^-a"]  # s(log t) = log t
    >>> shape.free, round(float(shape.s(np.log(100.0))), 4)
    (True, 4.6052)
    """

    s: Callable[[Floats], Floats]
    free: bool
    after: float = 0.0


SHAPES: dict[str, Shape] = {
    "1/log t": Shape(lambda l: -np.log(l), False),
    "log log t/log t": Shape(lambda l: np.log(np.log(l)) - np.log(l), False, 1.0),
    "(log log t)^2/log t": Shape(lambda l: 2 * np.log(np.log(l)) - np.log(l), False, 1.0),
    "(log t)^-a": Shape(np.log, True),
    "log t/t": Shape(lambda l: np.log(l) - l, False),
    "t^-a": Shape(lambda l: l, True),
    "exponential": Shape(lambda l: np.exp(np.minimum(l, _LATEST)), True),  # e^(−a t)
    "log t": Shape(np.log, False),  # growth; growth like t^a is t^-a with a negative exponent
}
# The shapes that `compare` ranks by default.
COMPARED = ("1/log t", "log log t/log t", "log t/t", "t^-a", "exponential")


@dataclass(frozen=True)
class RateFit:
    """A shape fitted to the tail of a run: value ≈ e^log_constant · shape(t).

    log_constant and exponent (None for a fixed shape) with their standard errors; window: the
    range of log t looked at; goodness: the share of the variance of log value explained; drift: by
    how much (in log units, at most over the window) the fits of its two halves differ (halves by
    the shape's own s, so by t for an exponential); miss: the error of the early half's fit on the
    late half of log t, block by block.
    """

    shape: str
    log_constant: float
    log_constant_error: float
    exponent: float | None
    exponent_error: float | None
    window: tuple[float, float]
    goodness: float
    drift: float
    miss: float

    @property
    def settled(self) -> bool:
        """Whether the two halves of the window agree within the share DRIFT.

        Noise that hides this counts as drift: a wrong shape is worse than none.
        """
        return self.drift <= float(np.log1p(DRIFT))


@dataclass(frozen=True)
class RateComparison:
    """Fits ranked by how well the early half of the window predicts the late half.

    verdict: the name of the best shape, or 'not yet asymptotic'; reason: one sentence on why.
    """

    fits: tuple[RateFit, ...]
    verdict: str
    reason: str

    @property
    def decided(self) -> bool:
        """Whether one shape is named."""
        return self.verdict != NOT_YET


def fit(times: Any, values: Any, shape: str, *, clock: Clock = "t", tail: float = 0.5) -> RateFit:
    """The RateFit of one shape by least squares in log space over the tail window.

    times (R,): step numbers, or their logs with clock="log t"; values (R,), positive in the
    window. tail: the share of the range of log t, counted from its end. Records at t ≤ 1 (t ≤ e
    for shapes with log log t) are left out.

    >>> import numpy as np
    >>> t = np.arange(1, 2000)
    >>> found = fit(t, 3 / t**0.5, "t^-a")
    >>> round(float(np.exp(found.log_constant)), 6), round(found.exponent, 6), found.settled
    (3.0, 0.5, True)
    """
    if shape not in SHAPES:
        raise Unsupported(f"unknown shape {shape!r}: known are {', '.join(SHAPES)}")
    l, y = _window(times, values, clock, tail, SHAPES[shape].after)
    return _fitted(l, y, shape)


def compare(
    times: Any,
    values: Any,
    *,
    shapes: Sequence[str] = COMPARED,
    clock: Clock = "t",
    tail: float = 0.5,
) -> RateComparison:
    """The shapes ranked on one window, and the verdict: one of them, or 'not yet asymptotic'.

    A shape is named when its fits on the two halves of the window agree (it is settled) and the
    next best predicts the late half at least CLEAR times worse. Otherwise the run is too short,
    or too noisy, to say.

    >>> import numpy as np
    >>> log_t = np.linspace(1, 120, 500)
    >>> compare(log_t, 2 / log_t, clock="log t").verdict
    '1/log t'
    """
    unknown = [name for name in shapes if name not in SHAPES]
    if unknown or len(shapes) < 2:
        raise Unsupported(f"give two or more shapes of {', '.join(SHAPES)}; not {unknown}")
    after = max(SHAPES[name].after for name in shapes)
    l, y = _window(times, values, clock, tail, after)
    fits = tuple(sorted((_fitted(l, y, name) for name in shapes), key=lambda f: f.miss))
    best, other = fits[0], fits[1]
    if not best.settled:
        change = 100 * np.expm1(min(best.drift, 20.0))
        reason = f"the best shape, {best.shape}, differs by {change:.2g} % between the halves"
        return RateComparison(fits, NOT_YET, reason)
    ratio = max(other.miss, _EXACT) / max(best.miss, _EXACT)
    if ratio < CLEAR:
        reason = (
            f"{best.shape} and {other.shape} predict the late half alike "
            f"(errors {best.miss:.2g} and {other.miss:.2g})"
        )
        return RateComparison(fits, NOT_YET, reason)
    reason = f"{other.shape}, the next best, predicts the late half {ratio:.2g} times worse"
    return RateComparison(fits, best.shape, reason)


def _window(
    times: Any, values: Any, clock: Clock, tail: float, after: float
) -> tuple[Floats, Floats]:
    """log t and log value of the records in the tail window, in order of time."""
    t = numbers(times, "times").astype(np.float64)
    v = numbers(values, "values").astype(np.float64)
    if t.ndim != 1 or v.shape != t.shape:
        raise BadTokens(f"times has shape {t.shape} and values {v.shape}; both must be (R,)")
    if clock not in ("t", "log t"):
        raise Unsupported(f"clock is {clock!r}: it is 't' or 'log t'")
    if not 0 < tail <= 1:
        raise Unsupported(f"tail is {tail}: it must be a share in (0, 1]")
    l = np.log(t, out=np.full(t.shape, -np.inf), where=t > 0) if clock == "t" else t
    late = np.isfinite(l) & (l > after)
    l, v = l[late], v[late]
    if len(l):
        keep = l >= l.max() - tail * (l.max() - l.min())
        l, v = l[keep], v[keep]
    if not (np.isfinite(v) & (v > 0)).all():
        k = int((~(np.isfinite(v) & (v > 0))).argmax())
        raise BadTokens(f"a value in the window is {v[k]:g}: a rate is fitted to positive values")
    if len(np.unique(l)) < _LEAST:
        raise BadTokens(
            f"the window has {len(np.unique(l))} times; a fit needs {_LEAST}: record more"
        )
    order = np.argsort(l, kind="stable")
    return l[order], np.log(v[order])


def _fitted(l: Floats, y: Floats, name: str) -> RateFit:
    """The RateFit of a shape to records in order of time."""
    shape = SHAPES[name]
    s = shape.s(l)
    top = max(float(np.abs(s).max()), 1e-300) if shape.free else 1.0
    edges = np.linspace(l[0], l[-1], min(_BINS, len(l)) + 1)
    place = np.clip(np.searchsorted(edges, l, side="right") - 1, 0, len(edges) - 2)
    u = _means(place, s / top)
    target = _means(place, y) if shape.free else _means(place, y - s)
    X = np.stack([np.ones(len(u)), -u], axis=1) if shape.free else np.ones((len(u), 1))
    theta = _solved(X, target)
    residual = target - X @ theta
    error = _errors(X, residual)
    full = _means(place, y)
    spread = float(((full - full.mean()) ** 2).sum())
    goodness = 1 - float(residual @ residual) / spread if spread > 0 else float("nan")
    # Halves: by the shape's own coordinate for the drift, by log t for the prediction.
    own, cut = _half(u if shape.free else _means(place, l)), _half(_means(place, l))
    apart = _solved(X[:own], target[:own]) - _solved(X[own:], target[own:])
    drift = float(np.abs(X @ apart).max())
    ahead = target[cut:] - X[cut:] @ _solved(X[:cut], target[:cut])
    parts = np.array_split(ahead, min(_BLOCKS // 2, len(ahead)))
    miss = float(np.sqrt(np.mean([part.mean() ** 2 for part in parts])))
    return RateFit(
        name,
        float(theta[0]),
        float(error[0]),
        float(theta[1] / top) if shape.free else None,
        float(error[1] / top) if shape.free else None,
        (float(l[0]), float(l[-1])),
        goodness,
        drift,
        miss,
    )


def _means(place: Any, values: Floats) -> Floats:
    """The mean of the values in each bin that has any."""
    count = np.bincount(place)
    return (np.bincount(place, values) / np.maximum(count, 1))[count > 0]


def _half(u: Floats) -> int:
    """How many of the increasing u lie in the first half of their range, two to all but two."""
    return int(np.clip((u < (u[0] + u[-1]) / 2).sum(), 2, len(u) - 2))


def _solved(X: Floats, y: Floats) -> Floats:
    """The least-squares coefficients."""
    return np.linalg.lstsq(X, y, rcond=None)[0].astype(np.float64, copy=False)


def _errors(X: Floats, residual: Floats) -> Floats:
    """The standard errors of the coefficients, with consecutive blocks as clusters.

    V = (XᵀX)⁺ (Σ_blocks g gᵀ) (XᵀX)⁺ · K/(K − k),   g = X_blockᵀ e_block
    """
    blocks = np.array_split(np.arange(len(X)), min(_BLOCKS, len(X) // 2))
    G = np.stack([X[part].T @ residual[part] for part in blocks]) @ np.linalg.pinv(X.T @ X)
    scale = len(blocks) / max(len(blocks) - X.shape[1], 1)
    return np.sqrt((G * G).sum(axis=0) * scale)

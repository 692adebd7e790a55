"""Training in as many digits as it needs: textbook formulas, nothing of the library.

A run has at least fifty digits more than its terms are powers of ten apart, over all its steps, and
says by itself when they do not suffice: TooFew starts it again with more. So does a singular value,
or an entry, that is neither clearly above the rounding of its parts nor below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
import numpy as np

from tests.training.models.precise import SLOPES

# Arrays of exact numbers, dtype object.
Digits = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, Digits]
Slope = Callable[[Params], dict[str, tuple[Digits, Digits]]]

# What is below 10^(SURE − digits) of its parts is zero; up to 10^(SURE + GUARD − digits) is doubt.
SURE, GUARD = 12, 18


class TooFew(Exception):
    """The digits do not suffice to tell a small number from zero; so many would, if known."""

    def __init__(self, needed: int = 0) -> None:
        self.needed = needed


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained from where, by what optimizer; `slope`: the gradient in exact numbers."""

    model: str
    optimizer: str
    start: dict[str, np.ndarray]
    lr: float = 1.0
    steps: int = 200
    options: dict[str, float] = field(default_factory=dict)

    def slope(self) -> Slope:
        """Each block's gradient, and beside it the size of what was added to make each entry."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Setting(Training):
    """One instance and how it is trained; relu: the joint models train a ReLU head."""

    X: np.ndarray
    z: np.ndarray
    y: np.ndarray
    v: np.ndarray | None
    relu: bool = False
    loss: str = "logistic"

    def slope(self) -> Slope:
        return _slope(self)


def exact(array: Any) -> Digits:
    """Floats as exact numbers."""
    return np.vectorize(lambda x: mp.mpf(float(x)), otypes=[object])(np.asarray(array))


def floats(array: Digits) -> np.ndarray:
    """Exact numbers as floats."""
    return np.vectorize(float, otypes=[np.float64])(array)


def run(
    setting: Training, digits: int = 80, shift: float = 0.0, *, rounded: bool = False
) -> tuple[dict[str, np.ndarray], int]:
    """Every block at every step (steps + 1, ...) as floats, and the digits that were enough.

    shift: the start is moved by this share of its size in a random direction. rounded: every step
    ends in floats, and all between is exact.
    """
    while True:
        with mp.workdps(digits):
            try:
                return _run(setting, shift, rounded), digits
            except TooFew as few:
                digits = max(few.needed + 20, int(1.3 * digits))


def _run(setting: Training, shift: float, rounded: bool) -> dict[str, np.ndarray]:
    params = {name: exact(block) for name, block in setting.start.items()}
    rng = np.random.default_rng(99)
    for name, block in params.items():
        size = max(abs(x) for x in block.ravel())
        noise = exact(rng.standard_normal(block.shape))
        params[name] = block + mp.mpf(shift) * size * noise
    slope = setting.slope()
    optimizer = OPTIMIZERS[setting.optimizer](setting)
    path: dict[str, list[np.ndarray]] = {name: [floats(x)] for name, x in params.items()}
    for t in range(1, setting.steps + 1):
        params = optimizer(params, slope(params), t)
        for name, block in params.items():
            path[name].append(floats(block))
            if rounded:
                params[name] = exact(path[name][-1])
    return {name: np.array(rows) for name, rows in path.items()}


def _slope(setting: Setting) -> Slope:
    """Each block's gradient, and beside it the size of what was added to make each entry."""
    X, z, y = exact(setting.X), exact(setting.z), exact(setting.y)
    keys = X
    if setting.model == "qk-norm":  # unit keys, in floats
        keys = exact(setting.X / np.linalg.norm(setting.X, axis=2, keepdims=True))
    head = None if setting.v is None else exact(setting.v).ravel()
    n = len(X)
    sizes: list[Any] = []  # of terms: the least and the largest so far

    def slope(params: Params) -> dict[str, tuple[Digits, Digits]]:
        heads = _heads(params, X.shape[2])
        tau = params.get("tau")
        G, size = [0 * W for W in heads], [0 * W for W in heads]
        trained = "V" if setting.relu else "v"
        D = 0 * params[trained] if trained in params else None
        D_tau, size_tau = mp.mpf(0), mp.mpf(0)
        for i in range(n):
            w = [W @ z[i] for W in heads]
            r = mp.sqrt(mp.fdot(w[0], w[0]))
            u = w[0] / r if tau is not None else w[0]
            s = [_softmax(keys[i] @ (own if tau is None else tau[0] * u)) for own in w]
            o = np.concatenate([own @ X[i] for own in s])
            on = None
            if trained == "V" and D is not None:
                inner = o @ params["V"]
                on = np.array([mp.mpf(1 if x > 0 else 0) for x in inner], dtype=object)
                value, grad = inner @ on, params["V"] @ on
            else:
                grad = params["v"] if head is None else head
                value = o @ grad
            outer = SLOPES[setting.loss](y[i] * value) * y[i] / n
            for h, (own, part) in enumerate(zip(s, np.split(grad, len(heads)), strict=True)):
                scores = X[i] @ part
                pull = (outer * own * (scores - own @ scores)) @ keys[i]
                most = abs(outer) * own * (abs(scores) + own @ abs(scores))  # before it cancels
                sizes[:] = [x(*sizes, *(m for m in most if m)) for x in (min, max)]
                full = most @ abs(keys[i])
                if tau is not None:
                    D_tau, size_tau = D_tau + pull @ u, size_tau + full @ abs(u)
                    pull = tau[0] / r * (pull - (pull @ u) * u)
                    full = abs(tau[0]) / r * (full + (full @ abs(u)) * abs(u))
                G[h] = G[h] + np.outer(pull, z[i])
                size[h] = size[h] + np.outer(full, abs(z[i]))
            if D is not None:
                D = D + outer * (o if on is None else np.outer(o, on))
        needed = 50 + int(mp.log10(sizes[1] / sizes[0]))
        if mp.mp.dps < needed:
            raise TooFew(needed)
        if "K" in params:
            K, Q = params["K"], params["Q"]
            return {
                "K": (G[0] @ Q, size[0] @ abs(Q)),
                "Q": (G[0].T @ K, size[0].T @ abs(K)),
            }
        if "W1" in params:
            return {f"W{h + 1}": pair for h, pair in enumerate(zip(G, size, strict=True))}
        whole = np.concatenate(G), np.concatenate(size)
        found = {"p": (G[0][:, 0], size[0][:, 0])} if "p" in params else {"W": whole}
        if tau is not None:
            found["tau"] = np.array([D_tau]), np.array([size_tau])
        return found if D is None else found | {trained: (D, 0 * D + max(abs(D.ravel())))}

    return slope


def _heads(params: Params, d: int) -> list[Digits]:
    """W of each head."""
    if "K" in params:
        return [params["K"] @ params["Q"].T]
    if "p" in params:
        return [params["p"][:, None]]
    if "W1" in params:
        return list(params.values())
    return np.split(params["W"], len(params["W"]) // d)


def _softmax(h: Digits) -> Digits:
    top = max(h)
    e = np.array([mp.exp(x - top) for x in h], dtype=object)
    return e / e.sum()


def _clean(G: Digits, size: Digits) -> Digits:
    """G with zero for entries that are rounding of their parts; TooFew when that is in doubt."""
    low = mp.mpf(10) ** (SURE - mp.mp.dps)
    high = low * mp.mpf(10) ** GUARD
    out = G.copy()
    for place, g in np.ndenumerate(G):
        if abs(g) <= low * size[place]:
            out[place] = mp.mpf(0)
        elif abs(g) <= high * size[place]:
            raise TooFew
    return out


def polar(G: Digits, most: Any = 0) -> Digits:
    """U Vᵀ over the nonzero singular values; g/‖g‖ of a vector. most: the size of what G sums."""
    if G.ndim == 1:
        size = mp.sqrt(mp.fdot(G, G))
        if size and size <= most * mp.mpf(10) ** (SURE + GUARD - mp.mp.dps):
            raise TooFew
        return G / size if size else G
    rest = [list(column) for column in G.T]
    norms = [mp.sqrt(mp.fdot(a, a)) for a in rest]
    if not max(norms):
        return 0 * G
    low = max(most, *norms) * mp.mpf(10) ** (SURE - mp.mp.dps)
    Q: list[list[Any]] = []
    for _ in range(min(G.shape)):
        k = max(range(len(rest)), key=lambda i: norms[i])
        if norms[k] <= low:
            break
        if norms[k] <= low * mp.mpf(10) ** GUARD:
            raise TooFew
        q = rest[k]
        for _ in range(2):
            for p in Q:
                f = mp.fdot(p, q)
                q = [a - f * b for a, b in zip(q, p, strict=True)]
        size = mp.sqrt(mp.fdot(q, q))
        q = [a / size for a in q]
        Q.append(q)
        for i, column in enumerate(rest):
            f = mp.fdot(q, column)
            rest[i] = [a - f * b for a, b in zip(column, q, strict=True)]
            norms[i] = mp.sqrt(mp.fdot(rest[i], rest[i]))
    rows = [[mp.fdot(q, column) for column in G.T] for q in Q]
    V = [[mp.mpf(int(i == j)) for j in range(len(Q))] for i in range(len(Q))]
    _jacobi(rows, V)
    out = 0 * G
    for row, mix in zip(rows, V, strict=True):
        size = mp.sqrt(mp.fdot(row, row))
        u = np.array(Q, dtype=object).T @ np.array(mix, dtype=object)
        out = out + np.outer(u, np.array(row, dtype=object) / size)
    return out


def _jacobi(rows: list[list[Any]], V: list[list[Any]]) -> None:
    """Makes the rows orthogonal by plane rotations, which V adds up."""
    close = mp.mpf(10) ** (-30)  # angles: far below what is compared, in floats
    turned = True
    while turned:
        turned = False
        for i in range(len(rows) - 1):
            for j in range(i + 1, len(rows)):
                a, b = mp.fdot(rows[i], rows[i]), mp.fdot(rows[j], rows[j])
                g = mp.fdot(rows[i], rows[j])
                if abs(g) <= close * mp.sqrt(a * b):
                    continue
                turned = True
                zeta = (b - a) / (2 * g)
                t = (1 if zeta >= 0 else -1) / (abs(zeta) + mp.sqrt(1 + zeta * zeta))
                c = 1 / mp.sqrt(1 + t * t)
                for pair in (rows, V):
                    x, y = pair[i], pair[j]
                    pair[i] = [c * (p - t * q) for p, q in zip(x, y, strict=True)]
                    pair[j] = [c * (q + t * p) for p, q in zip(x, y, strict=True)]


def _sign(G: Digits) -> Digits:
    return np.vectorize(mp.sign, otypes=[object])(G)


Optimizer = Callable[[Params, dict[str, tuple[Digits, Digits]], int], Params]


def _plain(
    toward: Callable[[Digits, Digits], Digits], momentum: float
) -> Callable[[Training], Optimizer]:
    def made(setting: Training) -> Optimizer:
        beta = mp.mpf(setting.options.get("momentum", momentum))
        mean: Params = {}
        sizes: Params = {}

        def optimizer(params: Params, slope: dict[str, tuple[Digits, Digits]], t: int) -> Params:
            new = {}
            for name, x in params.items():
                G, size = slope[name]
                mean[name] = beta * mean.get(name, 0 * x) + (1 - beta) * G
                sizes[name] = beta * sizes.get(name, 0 * x) + (1 - beta) * size
                new[name] = x - mp.mpf(setting.lr) * toward(mean[name], sizes[name])
            return new

        return optimizer

    return made


def _adam(setting: Training) -> Optimizer:
    b1, b2 = mp.mpf(setting.options.get("beta1", 0.9)), mp.mpf(setting.options.get("beta2", 0.999))
    first: Params = {}
    second: Params = {}

    def optimizer(params: Params, slope: dict[str, tuple[Digits, Digits]], t: int) -> Params:
        new = {}
        for name, x in params.items():
            G = _clean(*slope[name])
            first[name] = b1 * first.get(name, 0 * x) + (1 - b1) * G
            second[name] = b2 * second.get(name, 0 * x) + (1 - b2) * G * G
            new[name] = x.copy()
            for place, v in np.ndenumerate(second[name]):
                if v:
                    m = first[name][place] / (1 - b1**t)
                    new[name][place] -= mp.mpf(setting.lr) * m / mp.sqrt(v / (1 - b2**t))
        return new

    return optimizer


def _unit(G: Digits, size: Digits) -> Digits:
    return G / mp.sqrt(mp.fdot(G.ravel(), G.ravel()))


OPTIMIZERS: dict[str, Callable[[Training], Optimizer]] = {
    "spectral": _plain(lambda m, size: polar(m, max(size.ravel())), 0.0),
    "muon": _plain(lambda m, size: polar(m, max(size.ravel())), 0.95),
    "sign": _plain(lambda m, size: _sign(_clean(m, size)), 0.0),
    "signum": _plain(lambda m, size: _sign(_clean(m, size)), 0.9),
    "adam": _adam,
    "ngd": _plain(_unit, 0.0),
}

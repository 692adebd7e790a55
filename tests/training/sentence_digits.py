"""Training on sentences in many digits: textbook formulas, nothing of the library."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from tests.training.digits import Digits, Params, Slope, TooFew, Training, exact


@dataclass(frozen=True, kw_only=True)
class SentenceSetting(Training):
    """Lines of token numbers, pairs among them, over the embeddings E (N, d).

    head (N, d): the frozen decoder of next-token, None for the readout mass; pairs: the joint model
    trains on the pairs as well.
    """

    lines: list[list[int]]
    E: np.ndarray
    head: np.ndarray | None = None
    pairs: bool = False

    def slope(self) -> Slope:
        return _slope(self)


def _softmax(h: Digits) -> Digits:
    top = max(h)
    e = np.array([mp.exp(x - top) for x in h], dtype=object)
    return e / e.sum()


def _slope(setting: SentenceSetting) -> Slope:
    """Each block's gradient, and beside it the size of what was added to make each entry."""
    E = exact(setting.E)
    counts = Counter(tuple(line) for line in setting.lines)
    long = {line: m for line, m in counts.items() if len(line) > 2}
    short = {line: m for line, m in counts.items() if len(line) == 2}
    after = {line[0]: line[1] for line in short}
    frozen = None if setting.head is None else exact(setting.head)
    least: list[Any] = [mp.mpf(1)]  # of all terms so far

    def decoder(W: Digits) -> tuple[Digits, Digits]:
        G, size = 0 * W, 0 * W
        total = sum(short.values())
        for (x, y), m in short.items():
            q = _softmax(W @ E[x])
            least.append(min(q))
            G = G + mp.mpf(m) / total * np.outer(_less(q, y), E[x])
            size = size + mp.mpf(m) / total * np.outer(_more(q, y), abs(E[x]))
        return G, size

    def slope(params: Params) -> dict[str, tuple[Digits, Digits]]:
        found: dict[str, tuple[Digits, Digits]] = {}
        if "W_kq" in params:
            found = sentences(params["W_kq"], params.get("W_ov", frozen))
        if setting.model == "decoder" or setting.pairs:
            G, size = decoder(params["W_ov"])
            if setting.pairs:
                G, size = G + found["W_ov"][0], size + found["W_ov"][1]
            found["W_ov"] = G, size
        least[:] = [min(least)]
        needed = 50 - int(mp.log10(least[0]))
        if mp.mp.dps < needed:
            raise TooFew(needed)
        return {name: found[name] for name in params}

    def sentences(A: Digits, W: Digits | None) -> dict[str, tuple[Digits, Digits]]:
        G, size = 0 * A, 0 * A
        D = None if W is None else 0 * W
        most = D
        total = sum(long.values())
        for line, m in long.items():
            *words, y = line
            weight = mp.mpf(m) / total
            X = E[words]
            query = E[words[-1]]
            s = _softmax(X @ (A @ query))
            if W is None or D is None:
                right = np.array([mp.mpf(int(after.get(w) == y)) for w in words], dtype=object)
                inside = s @ right
                c, part = s - s * right / inside, s + s * right / inside
                least.append(min(s) ** 2)
            else:
                q = _softmax(W @ (X.T @ s))
                g = (X @ W.T) @ _less(q, y)
                D = D + weight * np.outer(_less(q, y), s @ X)
                most = most + weight * np.outer(_more(q, y), s @ abs(X))
                c = s * (g - s @ g)
                bound = (abs(X) @ abs(W).T) @ _more(q, y)
                part = s * (bound + s @ bound)
                least.append(min(s) ** 2 * min(q))
            G = G + weight * np.outer(c @ X, query)
            size = size + weight * np.outer(part @ abs(X), abs(query))
        found = {"W_kq": (G, size)}
        return found if D is None else found | {"W_ov": (D, most)}

    return slope


def _less(q: Digits, y: int) -> Digits:
    out = q.copy()
    out[y] -= 1
    return out


def _more(q: Digits, y: int) -> Digits:
    out = q.copy()
    out[y] += 1
    return out

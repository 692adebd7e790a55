"""Measures, by name: what a sweep finds on each instance.

measure(group, **parameters) -> {column: (B,)}: what is found of an instance depends on it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.experiments.families import relevant_inputs
from attsvm.experiments.group import (
    Group,
    cosine,
    gaps_of,
    norms_of,
    selected_by,
    share,
    share_among,
)
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED

Measure = Callable[..., dict[str, Any]]


def separable(group: Group, norm: str = "frobenius") -> dict[str, Any]:
    """A W with positive margins, or an exact proof that there is none, and the least norm."""
    found = group.solved(group.best, norm)
    can = np.array([np.isfinite(c.upper) for c in found])
    return {
        "separable": can,
        "proved_not": np.array([c.proof == "exact" for c in found]) & ~can,
        "least_norm": norms_of(found),
        "gap": gaps_of(found),
    }


def ends(group: Group, norm: str = "frobenius") -> dict[str, Any]:
    """Whether the selected tokens are the best, or locally optimal by certificate in this norm.

    kind: global, local, neither, infeasible or undecided. decided: attention of 0.999 on a token of
    every input. correlation: with the solution of the selected tokens' problem.
    """
    found = group.solved(group.selected, norm)
    kinds = [
        verdict_on(t, Selection.of(t, a), v, c).kind
        for t, a, v, c in zip(group.tokens, group.selected, group.heads, found, strict=True)
    ]
    return {
        "global_end": (group.selected == group.best).all(axis=1),
        "local_end": np.isin(kinds, ("global", "local")),
        "kind": np.array(kinds),
        "decided": group.path.top_attention[-1].min(axis=1) >= DECIDED,
        "correlation": np.array([cosine(W, c) for W, c in zip(group.ends, found, strict=True)]),
        "least_norm": norms_of(found),
        "gap": gaps_of(found),
    }


def global_ends(group: Group) -> dict[str, Any]:
    """Whether the selected tokens are the best ones, and attention has decided."""
    return {
        "global_end": (group.selected == group.best).all(axis=1),
        "decided": group.path.top_attention[-1].min(axis=1) >= DECIDED,
    }


# ---------------------------------------------------------------- margins

NORMS = ("frobenius", "max", "spectral", "nuclear", "l1")


def certified_shares(group: Group, W: Floats, norms: Sequence[str]) -> dict[str, Any]:
    """Columns share_NORM, the certified share of the best margin of each W (B, d, dq), whether it
    selects the best tokens (arrived), and the largest gap."""
    found = {norm: group.solved(group.best, norm) for norm in norms}
    out: dict[str, Any] = {
        f"share_{norm}": np.array([share(M, c) for M, c in zip(W, solved, strict=True)])
        for norm, solved in found.items()
    }
    some = found[norms[0]]
    out["arrived"] = np.array(
        [c.problem.margins(M).min() > 0 for M, c in zip(W, some, strict=True)]
    )
    out["gap"] = np.max([gaps_of(solved) for solved in found.values()], axis=0)
    return out


def margin_shares(group: Group) -> dict[str, Any]:
    """The certified share of the best margin in each of five norms, 0 at other tokens."""
    found = certified_shares(group, group.ends, NORMS)
    return {name: values for name, values in found.items() if name.startswith("share_")}


# ---------------------------------------------------------------- flipped labels


def kept_tokens(
    group: Group, n: int = 10, T: int = 5, d: int = 60, signal: float = 1.0, fresh: int = 200
) -> dict[str, Any]:
    """The share of relevant tokens among those kept, of clean and of flipped inputs, and on fresh
    inputs under the solution (the largest logit of so many); nan where there is none."""
    about = group.drawn.about
    if "relevant" not in about:
        raise Unsupported("kept-tokens is for the family flipped-labels")
    found = group.solved(group.best)
    same, flips = group.best == about["relevant"], about["flips"]
    can = np.array([np.isfinite(c.upper) for c in found])
    shares = np.full(len(group), np.nan)
    for b in np.flatnonzero(can):
        draw = np.random.default_rng([group.seeds[b], n, T, d, 1])
        X, _, place = relevant_inputs(draw, (fresh, T, d), signal)
        shares[b] = ((X @ np.asarray(found[b].W)[:, 0]).argmax(axis=1) == place).mean()
    return {
        "flipped": flips.sum(axis=1),
        "clean_relevant": share_among(same, ~flips),
        "flipped_relevant": share_among(same, flips),
        "separable": can,
        "fresh": shares,
        "least_norm": norms_of(found),
        "gap": gaps_of(found),
    }


# ---------------------------------------------------------------- mini-batches

SCALES = ("own", "full")


def batch_descent(
    stack: Sequence[Tokens], heads: Floats, seeds: Sequence[int], *, batch: int, scale: str,
    lr: float, steps: int,
) -> Floats:  # fmt: skip
    """The last W (B, d, dq) of each instance, from zero, under the logistic loss.

    A step is lr times −g_S/‖g‖, g_S the gradient of the loss on a batch S of the inputs, drawn anew
    at every step without putting back. scale: "own", g is g_S itself, so that every step has length
    lr; "full", g is the gradient of all inputs, so that steps are those of normalized descent with
    noise added. seeds: those of the batches, one per instance. Plain exponentials: for leads below
    700.
    """
    X = np.stack([np.asarray(t.X, dtype=np.float64) for t in stack])
    z = np.stack([t.queries for t in stack])
    y = np.stack([np.asarray(t.labels, dtype=np.float64) for t in stack])
    B, n, _, d = X.shape
    if scale not in SCALES:
        raise Unsupported(f"unknown scale {scale!r}: it is one of {', '.join(SCALES)}")
    if not 1 <= batch <= n:
        raise Unsupported(f"a batch of {batch}: it has from 1 to {n} inputs")
    scores = y[:, :, None] * np.einsum("bntd,bd->bnt", X, heads)
    chosen = np.stack([_batches(seed, n, batch, steps) for seed in seeds], axis=1)
    W = np.zeros((B, d, z.shape[2]))
    for step in range(steps):
        logits = np.einsum("bntd,bnd->bnt", X, np.einsum("bde,bne->bnd", W, z))
        s = np.exp(logits - logits.max(axis=2, keepdims=True))
        s /= s.sum(axis=2, keepdims=True)
        f = (s * scores).sum(axis=2)
        weights = s * (scores - f[:, :, None]) / (1 + np.exp(f))[:, :, None]
        # The pull of each input, (B, n, d): its part of −∇L is this times its query. The weights of
        # an input add up to zero, so that differences to its top token can stand for its tokens:
        # then nothing cancels, however small the weights of the others are.
        top = logits.argmax(axis=2)[:, :, None, None]
        pulls = np.einsum("bnt,bntd->bnd", weights, X - np.take_along_axis(X, top, axis=2))
        part = np.einsum("bnd,bne->bde", chosen[step, :, :, None] * pulls, z)
        whole = part if scale == "own" else np.einsum("bnd,bne->bde", pulls, z) / n
        W += lr * part / np.linalg.norm(whole, axis=(1, 2))[:, None, None]
    return W


def _batches(seed: int, n: int, batch: int, steps: int) -> Floats:
    """Weights (steps, n): 1/batch for the inputs of each step's batch, 0 for the others."""
    order = np.random.default_rng([seed, n, batch]).random((steps, n)).argsort(axis=1)
    return (order.argsort(axis=1) < batch) / batch


def batch_ends(group: Group, batch: int = 1, scale: str = "own") -> dict[str, Any]:
    """The correlation and margin share of the last W with the solution of the best tokens.

    A run takes its lr and steps from the spec, and its batches from each instance's seed.
    """
    W = batch_descent(
        group.tokens, group.heads, group.seeds, batch=batch, scale=scale,
        lr=float(group.run["lr"]), steps=int(group.run["steps"]),
    )  # fmt: skip
    found = group.solved(group.best)
    return {
        "correlation": np.array([cosine(M, c) for M, c in zip(W, found, strict=True)]),
        "share": np.array([share(M, c) for M, c in zip(W, found, strict=True)]),
        "gap": gaps_of(found),
    }


# ---------------------------------------------------------------- saturation


def needed_lead(sure: float = DECIDED) -> float:
    """log(s/(1 − s)): the least lead over every other token with attention s."""
    return float(np.log(sure / (1 - sure)))


def least_steps(least: float, *, lr: float, decay: float, sure: float = DECIDED) -> float:
    """The least number of steps from W = 0 after which attention can be s; inf where it never can.

    Attention of at least s on one token of every input needs leads of at least g = log(s/(1 − s))
    over each other token, so ‖W‖ ≥ g N, N the least norm of the selection's problem. Steps of norm
    η with decoupled decay λ keep ‖W_t‖ ≤ ‖W_0‖(1 − λη)^t + (1 − (1 − λη)^t)/λ, and ‖W_0‖ + ηt
    without decay. So no run of such an optimizer saturates before its norm can be g N, and none
    does at all with λ g N ≥ 1.

    least: a lower bound on N.

    >>> round(least_steps(2.0, lr=0.1, decay=0.0, sure=0.999), 1)
    138.1
    """
    need = needed_lead(sure) * least
    if decay == 0.0:
        return need / lr
    if decay * need >= 1.0:
        return float("inf")
    return float(np.log1p(-decay * need) / np.log1p(-decay * lr))


def saturation_time(group: Group, lr: float = 0.1, decay: float = 0.0) -> dict[str, Any]:
    """The step of the first record with attention 0.999 on a token of every input, and the least
    number of steps of norm lr, from zero, that the problem of these tokens allows.

    time is nan where no record is saturated, least inf where decay forbids it.
    """
    path = group.path
    sure = path.top_attention.min(axis=2) >= DECIDED
    yes = sure.any(axis=0)
    place = np.where(yes, sure.argmax(axis=0), len(path.steps) - 1)
    W = path.matrices()[place, np.arange(len(place))]
    found = group.solved(
        np.stack([selected_by(t, M) for t, M in zip(group.tokens, W, strict=True)])
    )
    norms = norms_of(found)
    least = np.array([np.nan if np.isnan(N) else least_steps(N, lr=lr, decay=decay) for N in norms])
    time = np.where(yes, path.steps[place], np.nan)
    return {
        "saturated": yes,
        "time": time,
        "least": least,
        "ratio": time / least,
        "least_norm": norms,
        "gap": gaps_of(found),
    }


MEASURES: dict[str, Measure] = {
    "separable": separable,
    "ends": ends,
    "global-ends": global_ends,
    "margin-shares": margin_shares,
    "kept-tokens": kept_tokens,
    "batch-ends": batch_ends,
    "saturation-time": saturation_time,
}

"""Measures, by name: what a sweep finds on each instance.

measure(group, **parameters) -> {column: (B,)}: what is found of an instance depends on it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attsvm.errors import Unsupported
from attsvm.experiments.group import Group, cosine, gaps_of, norms_of, share, share_among
from attsvm.problem.selection import Selection
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


def margin_shares(group: Group) -> dict[str, Any]:
    """The certified share of the best margin in each of five norms, 0 at other tokens."""
    from attsvm.experiments.studies.shared.steepest_runs import NORMS, certified_shares

    found = certified_shares(group, group.ends, NORMS)
    return {name: values for name, values in found.items() if name.startswith("share_")}


def kept_tokens(
    group: Group, n: int = 10, T: int = 5, d: int = 60, signal: float = 1.0, fresh: int = 200
) -> dict[str, Any]:
    """The share of relevant tokens among those kept, of clean and of flipped inputs, and on fresh
    inputs under the solution; nan where there is none."""
    from attsvm.experiments.studies.shared.flipped_labels import fresh_share

    about = group.drawn.about
    if "relevant" not in about:
        raise Unsupported("kept-tokens is for the family flipped-labels")
    found = group.solved(group.best)
    same, flips = group.best == about["relevant"], about["flips"]
    shares = [
        np.nan
        if c.W is None or not np.isfinite(c.upper)
        else fresh_share((n, T, d), seed, signal=signal, p=np.asarray(c.W)[:, 0], count=fresh)
        for c, seed in zip(found, group.seeds, strict=True)
    ]
    return {
        "flipped": flips.sum(axis=1),
        "clean_relevant": share_among(same, ~flips),
        "flipped_relevant": share_among(same, flips),
        "separable": np.array([np.isfinite(c.upper) for c in found]),
        "fresh": np.array(shares),
        "least_norm": norms_of(found),
        "gap": gaps_of(found),
    }


def batch_ends(group: Group, batch: int = 1, scale: str = "own") -> dict[str, Any]:
    """The correlation and margin share of the last W with the solution of the best tokens.

    A run takes its lr and steps from the spec, and its batches from each instance's seed.
    """
    from attsvm.experiments.studies.shared.mini_batches import batch_descent

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


def saturation_time(group: Group, lr: float = 0.1, decay: float = 0.0) -> dict[str, Any]:
    """The step of the first record with attention 0.999 on a token of every input, and the least
    number of steps of norm lr, from zero, that the problem of these tokens allows.

    time is nan where no record is saturated, least inf where decay forbids it.
    """
    from attsvm.experiments.studies.shared.random_instances import picks
    from attsvm.experiments.studies.shared.saturation import first_saturated, least_steps

    seen = first_saturated(group.path)
    found = group.solved(picks(group.tokens, seen.W))
    norms = norms_of(found)
    least = [np.nan if np.isnan(N) else least_steps(N, lr=lr, decay=decay) for N in norms]
    return {
        "saturated": seen.yes.astype(bool),
        "time": np.where(seen.yes, seen.at, np.nan),
        "least": np.array(least),
        "ratio": np.where(seen.yes, seen.at, np.nan) / np.array(least),
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

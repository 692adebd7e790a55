"""B: solutions in the Frobenius and the nuclear norm live in the span of the queries.

With P the projection on span{z_i}, W P meets the same margins as W. Both norms obey

    ‖W‖² ≥ ‖W P‖² + ‖W (I − P)‖²

(with equality in Frobenius norm), so that a part off the span makes W longer: every solution has
its rows in the span, and rank at most its dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Drawn, Group, gaps_of
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.norms import norm_of
from attsvm.problem.tokens import Tokens

# Singular values this share of the largest are rounding: of a few hundred operations, 1e-16 each.
_ROUNDING = 1e-12


def shared_queries(
    seeds: Sequence[int], n: int, T: int, d: int, different: int, selection: int
) -> Drawn:
    """Gaussian tokens with so many different queries among the inputs, and one of their random
    selections."""
    tokens, alpha = [], []
    for seed in seeds:
        draw = np.random.default_rng([seed, n, T, d, different])
        X = draw.standard_normal((n, T, d))
        z = draw.standard_normal((different, d))[np.arange(n) % different]
        tokens.append(Tokens(X, queries=z))
        alpha.append([draw.integers(0, T, n) for _ in range(selection + 1)][-1])
    return Drawn(tokens, alpha=np.stack(alpha))


def measure(group: Group, norm: str) -> dict[str, Any]:
    """What of the solution is off the span of the queries, and beyond its dimension."""
    flat = group.solved(group.best)
    proved = np.array([c.status == "infeasible" and c.proof == "exact" for c in flat])
    found = flat if norm == "frobenius" else group.solved(group.best, norm, where=~proved)
    rows = [
        _row(c, norm, seed) if c is not None and c.status == "optimal" else {}
        for c, seed in zip(found, group.seeds, strict=True)
    ]
    names = ("span", "rank", "clear_rank", "off", "beyond", "longer")
    columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
    certified = np.array([bool(row) for row in rows])
    return {"certified": certified, "proved_infeasible": proved, **columns, "gap": gaps_of(found)}


def _row(c: Any, norm: str, seed: int) -> dict[str, float]:
    _, s, Vt = np.linalg.svd(c.problem.queries)
    r = int((s > _ROUNDING * s[0]).sum())
    P = Vt[:r].T @ Vt[:r]
    s = np.linalg.svd(c.W, compute_uv=False)
    return {
        "span": r,
        "rank": int((s > _ROUNDING * s[0]).sum()),
        "clear_rank": int((s > 1e-6 * s[0]).sum()),
        "off": float(c.norm.value(c.W - c.W @ P)) / float(c.norm.value(c.W)),
        "beyond": float(s[r:].max(initial=0.0) / s[0]),
        "longer": _longer(c.W, P, norm, seed) if r < len(P) else np.nan,
    }


def _longer(W: Floats, P: Floats, norm: str, seed: int) -> float:
    """The least ‖W + B‖/√(‖W P‖² + ‖B‖²) over random B off the span, of sizes 1e-2 to 10 ‖W‖."""
    draw = np.random.default_rng([0, seed])
    B = draw.standard_normal((12, *W.shape)) @ (np.eye(len(P)) - P)
    size = np.geomspace(1e-2, 10.0, len(B)) * np.linalg.norm(W)
    B *= (size / np.linalg.norm(B, axis=(1, 2)))[:, None, None]
    value = norm_of(norm).value
    return float(np.min(value(W @ P + B) / np.hypot(float(value(W @ P)), value(B))))


def checks(table: Table, thresholds: Any) -> Checks:
    """Rows in the span of the queries, rank at most its dimension, certified."""
    sure = table[table.certified]
    open_ = int((~table.certified & ~table.proved_infeasible).sum())
    yield at_most("largest part off the span of the queries, share of ‖W‖", sure.off.max(),
                  _ROUNDING)  # fmt: skip
    yield at_most("largest singular value beyond its dimension, share of the first",
                  sure.beyond.max(), 1e-12)  # fmt: skip
    above = (sure["rank"] > sure[["n", "d", "span"]].min(axis=1)).sum()
    yield equals("solutions of rank above min(n, d) or that dimension", above, 0)
    full = ((sure.norm == "frobenius") & (sure.clear_rank == sure.span)).sum()
    yield at_least("Frobenius solutions that reach it: the bound is sharp", full, 1)
    # For every solution, not only the one at hand: a part off the span makes W longer.
    yield at_least("least ‖W + B‖/√(‖W‖² + ‖B‖²), B off the span (rounding of 1e-12)",
                   sure.longer.min(), 1 - 1e-12)  # fmt: skip
    yield at_least("share certified, of those not proved infeasible",
                   len(sure) / max(len(sure) + open_, 1), 0.99)  # fmt: skip
    proved = int(table.proved_infeasible.sum())
    yield Premises(
        len(sure),
        f"{len(sure)} solutions of random selections certified to the gap asked of the solver, "
        f"{proved} proved infeasible, {open_} neither and not judged",
        sure.gap.max(),
    )


STUDY = Study(
    id="B.low-rank",
    title="Solutions live in the span of the queries",
    kind="theorem",
    source="paper",
    statement="Every solution, in the Frobenius and in the nuclear norm, has its rows in the span "
    "of the queries and so rank at most n: at most min(n, d), and at most the number of different "
    "queries.",
    family=shared_queries,
    grid={
        "n T d different": [(3, 5, 6, 3), (8, 3, 5, 8), (6, 4, 6, 2)],
        "selection": [0, 1, 2],
        "norm": ["frobenius", "nuclear"],
    },
    seeds=15,
    measure=measure,
    checks=checks,
    quick={"seeds": 4},
    figure={
        "kind": "scatter",
        "where": lambda t: t.certified,
        "x": "span",
        "y": "clear_rank",
        "lines": "norm",
        "diagonal": True,
        "xlabel": "dimension of the span of the queries",
        "ylabel": "rank of the solution",
    },
    theorem="v1, Lemma 1",
)

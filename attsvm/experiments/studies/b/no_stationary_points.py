"""B: under either premise the loss falls along W^mm everywhere, and the norm of W diverges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.shared.plain_descent import (
    loss_and_pull,
    own_descent,
    reached_norm,
    scored,
    smoothness,
)
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.theory.landscape import all_tight, descent_along, equal_scores, least_descent

_RUN = ["scores", "d", "start_size", "seed"]


def measure(group: Group, descended: bool, samples: int, rounds: int, plain_steps: int) -> Parts:
    """The point of least descent along W^mm that a search finds, and plain descent from starts of
    several sizes.

    premise: B.1, B.2, loose (neither), unknown, or infeasible. Of the point of least descent: the
    sign and the cosine of −⟨∇L, W^mm⟩, and the difference from the derived formula. Of runs, which
    have a start_size: the loss above its infimum, ‖∇L‖, ‖W‖, ⟨W, W^mm⟩, η times the steps, and at
    the last step the norm that must have been reached.
    """
    found = group.solved(group.best)
    rows: list[dict[str, Any]] = []
    for seed, t, v, c in zip(group.seeds, group.tokens, group.heads, found, strict=True):
        about = {"seed": seed, "premise": _premise(t, v, c)}
        if c.status == "infeasible" or c.W is None:
            rows.append(about)
            continue
        _, W = least_descent(t, v, c, radius=30.0, seed=seed, samples=samples, rounds=rounds)
        D = np.asarray(c.W)
        value = descent_along(t, v, W, D)
        error = np.nan
        if about["premise"] in ("B.1", "B.2"):
            error = abs(value.value - _formula(t, v, W, D, tight=about["premise"] == "B.1"))
        rows.append({
            **about, "sign": int(value.sign), "error": error,
            "cosine": _cosine(t, v, W, D), "gap": float(c.gap),
        })  # fmt: skip
    if descended:
        inside = [b for b, row in enumerate(rows) if row["premise"] in ("B.1", "B.2")]
        rows += _runs(group, found, inside, rows, plain_steps)
    return rows


def _premise(tokens: Tokens, v: Floats, best: Any) -> str:
    if best.status == "infeasible" or best.W is None:
        return "infeasible"
    if equal_scores(tokens, v):
        return "B.2"
    return {True: "B.1", False: "loose", None: "unknown"}[all_tight(best)]


def _formula(tokens: Tokens, v: Any, W: Floats, D: Floats, *, tight: bool) -> float:
    """(1/n) Σ |ℓ'| s_opt (γ_opt − f) where all margins of D are tight, else
    (1/n) Σ |ℓ'| s_opt gap Σ_t s_t (margin of t), which needs equal scores; logistic loss."""
    s, scores = attention(tokens, W), tokens.scores(v)
    top = Selection.best(tokens, v).indices
    rows = np.arange(tokens.n)
    f = (s * scores).sum(axis=1)
    gaps = scores[rows, top][:, None] - scores
    if tight:
        inner = (s * gaps).sum(axis=1)
    else:
        logits = np.einsum("ntd,de,ne->nt", np.asarray(tokens.X), D, tokens.queries)
        inner = gaps.max(axis=1) * (s * (logits[rows, top][:, None] - logits)).sum(axis=1)
    return float(np.mean(s[rows, top] * inner / (1 + np.exp(f))))


def _cosine(tokens: Tokens, v: Any, W: Floats, D: Floats) -> float:
    """−⟨∇L(W), D⟩ as a share of ‖∇L(W)‖‖D‖, by its parts along the unit matrices."""
    basis = np.eye(D.size).reshape(-1, *D.shape)
    gradient = np.array([descent_along(tokens, v, W, E).value for E in basis])
    value = descent_along(tokens, v, W, D).value
    return value / float(np.linalg.norm(gradient) * np.linalg.norm(D))


def _runs(
    group: Group, found: Sequence[Any], inside: Sequence[int], points: Sequence[dict[str, Any]],
    steps: int,
) -> Parts:  # fmt: skip
    """The records of plain descent on these instances."""
    out: list[dict[str, Any]] = []
    if not inside:
        return out
    stack, heads = [group.tokens[b] for b in inside], group.heads[list(inside)]
    start = int(group.run["start"])
    for k, start_size in enumerate((0.1, 1.0, 3.0)):
        draws = [np.random.default_rng([start + k, group.seeds[b]]) for b in inside]
        shape = found[inside[0]].problem.shape
        W = start_size * np.stack([draw.standard_normal(shape) for draw in draws])
        path = own_descent(stack, heads, W, steps=steps)
        for j, b in enumerate(inside):
            t, v, D = stack[j], heads[j], np.asarray(found[b].W)
            sizes = np.linalg.norm(path.W[:, j], axis=(1, 2))
            way = path.steps / smoothness(t, v)
            asked = reached_norm(t, v, size=float(np.linalg.norm(D)), start=float(sizes[0]),
                                 way=float(way[-1]))  # fmt: skip
            for r, M in enumerate(path.W[:, j]):
                loss, pull = loss_and_pull(t, v, M)
                out.append({
                    "seed": group.seeds[b], "premise": points[b]["premise"], "loss": loss,
                    "start_size": start_size, "step": int(path.steps[r]), "way": way[r],
                    "pull": float(np.linalg.norm(pull)), "size": sizes[r],
                    "along": float(np.vdot(M, D)),
                    "asked": asked if r == len(sizes) - 1 else np.nan,
                })  # fmt: skip
    return out


def checks(table: Table, thresholds: Any) -> Checks:
    """Descent along W^mm is positive at the worst points under B.1 and under B.2, and plain runs
    keep to the bounds that follow from it."""
    points, records = table[table.start_size.isna()], table[table.start_size.notna()]
    by = {name: points[points.premise == name] for name in ("B.1", "B.2", "loose")}
    tight, equal = len(by["B.1"]), len(by["B.2"])
    yield at_least("instances with all margins tight (B.1)", tight, 1)
    yield at_least("instances with equal scores (B.2)", equal, 1)
    rising = sum((by[name].sign <= 0).sum() for name in ("B.1", "B.2"))
    yield equals("of both, with a point where the loss does not fall along W^mm", rising, 0)
    # Both are sums of a dozen products of size up to 1: rounding of 1e-15 each.
    yield at_most("largest difference from the derived formulas", points.error.max(), 1e-13)
    runs = records.groupby(_RUN)
    first, last = runs.first(), runs.last()
    # A loss near its infimum, and a part along W^mm that hardly grows, move by rounding.
    yield equals("plain runs whose loss rises",
                 runs.loss.apply(lambda loss: (loss.diff() > 1e-14).any()).sum(), 0)  # fmt: skip
    shrinks = runs.along.apply(lambda a: (a.diff() < -1e-12 * (1 + a.abs())).any())
    yield equals("plain runs whose part along W^mm ever shrinks", shrinks.sum(), 0)
    # Both bounds are derived: Σ η‖∇L‖²/2 ≤ L(0) − L⋆, and the growth of ⟨W, W^mm⟩.
    yield at_most("least ‖∇L‖² along a run, as a share of 2(L − L⋆)/(ηk)",
                  (runs.pull.min() ** 2 * last.way / (2 * first.loss)).max(), 1.0)  # fmt: skip
    reached = runs["size"].max() / last.asked.where(last.asked > 0, 0.0)
    yield at_least("largest norm along a run over the norm it must have reached", reached.min(),
                   1.0)  # fmt: skip
    # That it can fail is shown by one point.
    witnesses = int((by["loose"].sign < 0).sum())
    yield at_least("instances with neither premise and a point where the loss rises along W^mm",
                   witnesses, 1)  # fmt: skip
    yield Premises(
        tight + equal,
        f"{tight} instances with all margins tight, {equal} with equal scores and "
        f"{len(by['loose'])} with neither premise, each searched for its point of least descent; "
        f"{len(last)} plain runs with η ≤ 1/L_W",
    )


STUDY = Study(
    id="B.no-stationary-points",
    title="No stationary point, and the norm diverges",
    kind="theorem",
    source="paper",
    statement="If every token but the best is tight at the max-margin W of the best tokens (B.1), "
    "or all but the best of an input share one score (B.2), the loss has no stationary point, and "
    "plain descent with η ≤ 1/L_W has ∇L → 0 and ‖W‖ → ∞ from any W(0). The reason is −⟨∇L(W), "
    "W^mm⟩ > 0 at every W; with neither premise this can fail.",
    family=scored,
    grid={
        "scores d descended": [
            ("free", 3, False),
            ("free", 12, False),
            ("free", 50, False),
            ("free", 200, True),
            ("equal", 4, True),
        ]
    },
    run={"n": 3, "T": 4, "samples": 1000, "rounds": 40, "plain_steps": 20_000},
    seeds=24,
    group=8,
    measure=measure,
    checks=checks,
    gap=1e-8,
    quick={
        "grid": {
            "scores d descended": [("free", 3, False), ("free", 200, True), ("equal", 4, True)]
        },
        "run": {"samples": 300, "rounds": 20, "plain_steps": 2000},
        "seeds": 6,
    },
    figure={
        "kind": "scatter",
        "where": lambda t: t.start_size.isna() & t.cosine.notna(),
        "x": "d",
        "y": "cosine",
        "lines": "premise",
        "log": "x",
        "ylabel": "least cosine of −∇L with W^mm found",
        "title": "Does the loss fall along W^mm everywhere? (one dot per instance)",
    },
    theorem="v1, Theorem 3",
)

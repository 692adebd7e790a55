"""B, Lemma 5: a selection is locally optimal exactly if W^mm is in the cone of its score orders."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

from attsvm.experiments.statements.parts.facts import facts_of, locally_optimal, logits, scores
from attsvm.experiments.statements.parts.rationals import (
    exact_scores,
    exact_solution,
    fractions,
    matrix_rows,
    tight_tokens,
)
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement


def premises(one: Instance) -> bool:
    """The first tokens can be kept, scores are distinct, and each input has a tight token.

    Also a token of lower score in every input that has one of higher score: without it the cone
    of v1 is not defined there.
    """
    facts, found = facts_of(one, [0] * len(one["X"])), scores(one)
    if facts is None or any(len(set(row)) < len(row) for row in found.tolist()):
        return False
    low = (found < found[:, :1]).any(axis=1)
    return bool(facts.tight.any(axis=1).all() and low.all())


def _depth(one: Instance) -> float:
    """The largest ε of a cone that W^mm lies in, times ‖W^mm‖."""
    facts, found = facts_of(one, [0] * len(one["X"])), scores(one)
    at = np.zeros((1, 1)) if facts is None else facts.W
    least = np.inf
    for h, g in zip(logits(one, at), found, strict=True):
        low, high = h[g < g[0]], h[g > g[0]]
        if len(high):
            least = min(least, float(low.max() - high.max()))
    return least


def violation(one: Instance) -> float:
    """How far the cone and local optimality disagree."""
    alpha = (0,) * len(one["X"])
    facts = facts_of(one, alpha)
    if facts is None:
        return -1.0
    local, depth = locally_optimal(one, alpha, facts), _depth(one)
    if not np.isfinite(depth):
        return -1.0 if local else 1.0
    return -depth + 1e-9 if local else depth - 1e-9


def confirm(one: Instance) -> Confirmation:
    """Tight tokens and logits of the rational solution."""
    alpha = [0] * len(one["X"])
    found = exact_solution(one, alpha)
    if found is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    gamma, tight = exact_scores(one), tight_tokens(one, alpha, found)
    local = all(gamma[i][0] > gamma[i][t] for i, t in tight)
    W, inside = found.matrix.fractions(), True
    for i, tokens in enumerate(one["X"]):
        z = fractions(one.tokens.queries[i])
        h = [
            sum((a * W[r, c] * b for (r, a), (c, b) in product(enumerate(x), enumerate(z))),
                Fraction(0))
            for x in matrix_rows(tokens)
        ]  # fmt: skip
        low = [a for a, g in zip(h, gamma[i], strict=True) if g < gamma[i][0]]
        high = [a for a, g in zip(h, gamma[i], strict=True) if g > gamma[i][0]]
        inside = inside and (not high or (bool(low) and max(low) > max(high)))
    covered = {i for i, _ in tight} == set(range(len(one["X"])))
    return Confirmation(
        covered and inside != local,
        "rationals",
        f"locally optimal: {local}; W^mm in a cone: {inside}",
    )


STATEMENT = Statement(
    "local-cone",
    title="Locally optimal exactly in the cone",
    says="Where each input has a tight token and one of lower score, a selection is locally "
    "optimal exactly if W^mm puts in each input a token of lower score before all of higher score "
    "(v1, Lemma 5).",
    kind="theorem",
    space=Space(
        {"n": (1, 2), "T": (2, 4), "d": (1, 3)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",))),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    claims=("B.local-path",),
    lines=("print(attsvm.optimality(attsvm.Tokens(X), [0] * len(X), v).message)",),
    proves="the rational solution, its tight tokens and logits",
)

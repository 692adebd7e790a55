"""Planted: that every input has a tight token. It sounds right and is not."""

from __future__ import annotations

from fractions import Fraction

from attsvm.experiments.statements.parts.facts import facts_of
from attsvm.experiments.statements.parts.rationals import exact_solution, tight_tokens, written
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement
from attsvm.problem.problem import Problem


def premises(one: Instance) -> bool:
    """Some prompt keeps the first token of every input."""
    return facts_of(one, [0] * len(one["X"])) is not None


def violation(one: Instance) -> float:
    """The largest, over inputs, of the least slack of their tokens at W^mm."""
    facts = facts_of(one, [0] * len(one["X"]))
    if facts is None:
        return -1.0
    T = one["X"].shape[1]
    slack = facts.certificate.problem.margins(facts.W) - 1
    return float(slack.reshape(-1, T - 1).min(axis=1).max())


def confirm(one: Instance) -> Confirmation:
    """The tight rows of the rational solution."""
    alpha = [0] * len(one["X"])
    found = exact_solution(one, alpha)
    if found is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    touched = {i for i, _ in tight_tokens(one, alpha, found)}
    loose = [i for i in range(len(alpha)) if i not in touched]
    W = found.matrix.fractions().ravel()
    margins: list[Fraction] = []
    for i, _, t in Problem.of(one.tokens, alpha).rows:
        row = one["X"][i, 0] - one["X"][i, t]
        margins.append(sum((Fraction(float(a)) * b for a, b in zip(row, W, strict=True)),
                           Fraction(0)))  # fmt: skip
    return Confirmation(
        bool(loose),
        "rationals",
        f"W^mm = {written(W)} has the margins {written(margins)}: no token of input "
        f"{loose[0] if loose else '–'} is tight",
        {"W": written(W), "margins": written(margins)},
    )


STATEMENT = Statement(
    "every-input-tight",
    title="Every input has a tight token",
    says="At W^mm every input has a token whose margin is 1 (planted for tests; false).",
    kind="planted",
    space=Space({"n": (1, 3), "T": (2, 3), "d": (1, 3)}, (Field("X", ("n", "T", "d")),)),
    premises=premises,
    violation=violation,
    confirm=confirm,
    lines=(
        "best = attsvm.solve(attsvm.Problem.of(attsvm.Tokens(X), [0] * len(X)))",
        "print(best.problem.rows[:, 0], best.problem.margins(best.W))",
    ),
    proves="the rational solution and its margins",
)

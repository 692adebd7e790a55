"""Small sets of sentences with one query: the order of their tokens, its kinds and its column.

Tokens are 0, …, N − 1 and the query, N − 1, is the last token of every sentence. A row of marks has
0 for a token that the sentence lacks, 1 for one that it has, 2 for the one that is optimal; without
a 2 the query is. The column u of least norm with u_a − u_b ≥ 1 wherever a is above b is the one
of the attention's solution.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate.exact import ExactSolution
from attsvm.experiments.statements.parts.facts import facts_of
from attsvm.experiments.statements.parts.rationals import exact_solution, written
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space

# The kind that is to be above, and the one below.
PAIRS = (
    ("optimal", "confused"),
    ("optimal", "non-comparable"),
    ("optimal", "non-optimal"),
    ("confused", "non-optimal"),
    ("non-comparable", "non-optimal"),
)


def _made(drawn: dict[str, Floats]) -> dict[str, Floats]:
    """One input for each relation: the unit vector of the token above, then of the one below."""
    marks = drawn["marks"]
    N = marks.shape[1] + 1
    pairs = np.argwhere(_above(marks))
    X = np.eye(N)[pairs] if len(pairs) else np.zeros((1, 2, N))
    return {"X": X, "marks": marks}


def _above(marks: Floats) -> Bools:
    """Whether some sentence puts token a over token b, (N, N)."""
    out = np.zeros((marks.shape[1] + 1,) * 2, dtype=bool)
    for row in marks:
        have = [*np.flatnonzero(row > 0), len(row)]
        tops = np.flatnonzero(row == 2)
        top = int(tops[0]) if len(tops) else len(row)
        for t in have:
            out[top, t] |= t != top
    return out


def closure(marks: Floats) -> Bools:
    """The relation with all that follows from it."""
    out = _above(marks)
    for k in range(len(out)):
        out |= out[:, k : k + 1] & out[k : k + 1]
    return out


SPACE = Space(
    {"sentences": (1, 4), "others": (2, 4)},  # tokens other than the query
    (Field("marks", ("sentences", "others"), values=(0.0, 1.0, 2.0)),),
    make=_made,
)
LINES = (
    "# X[i] = (the token above, the token below), as unit vectors; the last token is the query.",
    "best = attsvm.solve(attsvm.Problem.of(attsvm.Tokens(X), [0] * len(X)))",
    "print(np.round(best.W[:, 0], 6))  # the column of the query",
)


def realizable(one: Instance) -> bool:
    """One optimal token per sentence, some relation, and no cycle."""
    marks = one["marks"]
    if ((marks == 2).sum(axis=1) > 1).any():
        return False
    over = closure(marks)
    return bool(over.any()) and not bool(over.diagonal().any())


def unconfused(one: Instance) -> bool:
    """Realizable, and no token is both above and below others."""
    return realizable(one) and "confused" not in kinds(one)


def kinds(one: Instance) -> list[str]:
    """The kind of each token."""
    over = closure(one["marks"])
    names = {
        (True, False): "optimal",
        (True, True): "confused",
        (False, True): "non-optimal",
        (False, False): "non-comparable",
    }
    return [names[bool(over[t].any()), bool(over[:, t].any())] for t in range(len(over))]


def column(one: Instance) -> Floats:
    """u (N,), in floats."""
    facts = facts_of(one, [0] * len(one["X"]))
    return np.zeros(one["X"].shape[2]) if facts is None else facts.W[:, 0]


def _with_another(names: list[str], u: list[Any]) -> tuple[list[str], list[Any]]:
    """Kinds and column with one more token, in no sentence: a vocabulary may have one."""
    return [*names, "non-comparable"], [*u, 0]


def largest_fall(one: Instance) -> float:
    """The most by which a token of a kind below stands over one of a kind above."""
    names, u = _with_another(kinds(one), column(one).tolist())
    found = [
        float(u[b] - u[a])
        for a, first in enumerate(names)
        for b, second in enumerate(names)
        if (first, second) in PAIRS
    ]
    return max(found, default=-1.0)


def confirm_fall(one: Instance, *, ties: bool) -> Confirmation:
    """The same in rationals; a tie counts where `ties`."""
    found = exact_solution(one, [0] * len(one["X"])) if realizable(one) else None
    if found is None:
        return Confirmation(False, "rationals", "no exact solution was found")
    exact = exact_column(found)
    names, u = _with_another(kinds(one), exact)
    for a, b in np.ndindex(len(u), len(u)):
        if (names[a], names[b]) in PAIRS and (u[b] > u[a] or (ties and u[b] == u[a])):
            verb = "stands over" if u[b] > u[a] else "ties with"
            return Confirmation(
                True,
                "rationals",
                f"sentences {sentences_written(one)} have the column {written(exact)}: the "
                f"{names[b]} token {b} {verb} the {names[a]} token {a}",
                {"column": written(exact), "kinds": ", ".join(kinds(one))},
            )
    return Confirmation(False, "rationals", f"the column {written(exact)} has no such pair")


def exact_column(found: ExactSolution) -> list[Fraction]:
    """u (N,) of a solution in rationals."""
    return [Fraction(x) for x in found.matrix.fractions().ravel().tolist()]


def sentences_written(one: Instance) -> str:
    """The sentences as their tokens, the optimal one in brackets."""
    out = []
    for row in one["marks"]:
        words = [f"[{t}]" if m == 2 else str(t) for t, m in enumerate(row) if m > 0]
        last = str(len(row)) if (row == 2).any() else f"[{len(row)}]"
        out.append(" ".join([*words, last]))
    return "; ".join(out)

"""Statements of paper D on small sets of sentences with one query: the order of their tokens.

Tokens are 0, …, N − 1 and the query, N − 1, is the last token of every sentence. A row of marks has
0 for a token that the sentence lacks, 1 for one that it has, 2 for the one that is optimal; without
a 2 the query is. The column u of least norm with u_a − u_b ≥ 1 wherever a is above b is the one
of the attention's solution.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.experiments.statements import facts
from attsvm.experiments.statements.facts import Exact, written
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement

# The kind that is to be above, and the one below.
_PAIRS = (
    ("optimal", "confused"),
    ("optimal", "non-comparable"),
    ("optimal", "non-optimal"),
    ("confused", "non-optimal"),
    ("non-comparable", "non-optimal"),
)
_SIGN = {"optimal": -1, "non-optimal": 1}


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


def _closure(marks: Floats) -> Bools:
    """The relation with all that follows from it."""
    out = _above(marks)
    for k in range(len(out)):
        out |= out[:, k : k + 1] & out[k : k + 1]
    return out


def _made(drawn: dict[str, Floats]) -> dict[str, Floats]:
    """One input for each relation: the unit vector of the token above, then of the one below."""
    marks = drawn["marks"]
    N = marks.shape[1] + 1
    pairs = np.argwhere(_above(marks))
    X = np.eye(N)[pairs] if len(pairs) else np.zeros((1, 2, N))
    return {"X": X, "marks": marks}


_SPACE = Space(
    {"sentences": (1, 4), "others": (2, 4)},  # tokens other than the query
    (Field("marks", ("sentences", "others"), values=(0.0, 1.0, 2.0)),),
    make=_made,
)


def realizable(one: Instance) -> bool:
    """One optimal token per sentence, some relation, and no cycle."""
    if ((one["marks"] == 2).sum(axis=1) > 1).any():
        return False
    over = _closure(one["marks"])
    return bool(over.any()) and not bool(over.diagonal().any())


def unconfused(one: Instance) -> bool:
    """Realizable, and no token is both above and below others."""
    return realizable(one) and "confused" not in _kinds(one)


def _kinds(one: Instance) -> list[str]:
    """The kind of each token."""
    over = _closure(one["marks"])
    names = {
        (True, False): "optimal",
        (True, True): "confused",
        (False, True): "non-optimal",
        (False, False): "non-comparable",
    }
    return [names[bool(over[t].any()), bool(over[:, t].any())] for t in range(len(over))]


def _column(one: Instance) -> Floats:
    """u (N,), in floats."""
    return facts.facts_of(one, one.first).W[:, 0]


def _exact_column(one: Instance) -> Exact:
    """u (N,), in rationals."""
    return facts.exact_solution(one, one.first).matrix.fractions().ravel()


def _falls(one: Instance, u: Any) -> list[tuple[Any, int, int]]:
    """(u_b − u_a, a, b) wherever token a is of a kind above that of token b.

    A vocabulary may have one more token, in no sentence: it is non-comparable, with u = 0.
    """
    kinds, values = [*_kinds(one), "non-comparable"], [*u, 0]
    return [
        (values[b] - values[a], a, b)
        for a, b in np.ndindex(len(values), len(values))
        if (kinds[a], kinds[b]) in _PAIRS
    ]


def _largest_fall(one: Instance, ties: bool) -> float:
    """The most by which a kind below stands over one above; 1e-6 is added where ties count."""
    found = [float(fall) for fall, _, _ in _falls(one, _column(one))]
    return max(found, default=-1.0) + (1e-6 if ties else 0.0)


def _confirm_fall(one: Instance, ties: bool) -> Confirmation:
    """The same in rationals."""
    u = _exact_column(one)
    kinds = [*_kinds(one), "non-comparable"]
    for fall, a, b in _falls(one, u):
        if fall > 0 or (ties and fall == 0):
            verb = "stands over" if fall > 0 else "ties with"
            return Confirmation(
                True,
                f"sentences {_sentences_written(one)} have the column {written(u)}: the "
                f"{kinds[b]} token {b} {verb} the {kinds[a]} token {a}",
            )
    return Confirmation(False, f"the column {written(u)} has no such pair")


def _sentences_written(one: Instance) -> str:
    """The sentences as their tokens, the optimal one in brackets."""
    out = []
    for row in one["marks"]:
        words = [f"[{t}]" if m == 2 else str(t) for t, m in enumerate(row) if m > 0]
        last = str(len(row)) if (row == 2).any() else f"[{len(row)}]"
        out.append(" ".join([*words, last]))
    return "; ".join(out)


def _wrong_sign(one: Instance) -> float:
    """The most by which an entry has the wrong sign for its kind."""
    found = [-1.0]
    for name, u in zip(_kinds(one), _column(one), strict=True):
        if name == "non-comparable":
            found.append(abs(float(u)))
        elif name in _SIGN:
            found.append(_SIGN[name] * float(u))
    return max(found)


def _confirm_sign(one: Instance) -> Confirmation:
    """The column in rationals."""
    u = _exact_column(one)
    wrong = [
        t
        for t, name in enumerate(_kinds(one))
        if (name == "non-comparable" and u[t] != 0) or _SIGN.get(name, 0) * u[t] > 0
    ]
    return Confirmation(bool(wrong), f"the column is {written(u)}; wrong signs at {wrong}")


def closed_form(kinds: list[str]) -> list[Fraction]:
    """|N|/(|O| + |N|) at optimal, −|O|/(|O| + |N|) at non-optimal tokens, 0 elsewhere."""
    above, below = kinds.count("optimal"), kinds.count("non-optimal")
    entries = {"optimal": below, "non-optimal": -above}
    return [Fraction(entries.get(kind, 0), max(above + below, 1)) for kind in kinds]


def _formula(one: Instance) -> Exact:
    """The closed form of the instance."""
    return np.array(closed_form(_kinds(one)))


def _off_formula(one: Instance) -> float:
    """The largest difference between the column and the formula."""
    return float(np.abs(_column(one) - _formula(one).astype(np.float64)).max())


def _confirm_off_formula(one: Instance) -> Confirmation:
    """The column in rationals."""
    u, printed = _exact_column(one), _formula(one)
    return Confirmation(
        bool((u != printed).any()),
        f"sentences {_sentences_written(one)} have the column {written(u)} of squared norm "
        f"{u @ u}; the formula gives {written(printed)}, {printed @ printed}",
    )


STATEMENTS = (
    Statement(
        "order-signs",
        says="With confused tokens or without, optimal tokens are at or above 0, non-comparable "
        "ones at 0, non-optimal ones at or below 0 in the column of their query (derived from the "
        "optimality conditions).",
        kind="theorem",
        space=_SPACE,
        premises=realizable,
        violation=_wrong_sign,
        confirm=_confirm_sign,
        claims=("D.confused-tokens",),
        proves="rationals",
    ),
    Statement(
        "strict-order",
        says="Without confused tokens the column of a query is above 0 at optimal, 0 at "
        "non-comparable and below 0 at non-optimal tokens (D).",
        kind="theorem",
        space=_SPACE,
        premises=unconfused,
        violation=partial(_largest_fall, ties=True),
        confirm=partial(_confirm_fall, ties=True),
        claims=("D.star-orders",),
        proves="rationals",
    ),
    Statement(
        "proposition-2",
        says="Without confused tokens the column of a query has the entries |N|/(|O| + |N|) at its "
        "optimal tokens O, −|O|/(|O| + |N|) at its non-optimal tokens N and 0 elsewhere (D, "
        "Proposition 2; in sets closed under prefixes it holds).",
        kind="false",
        space=_SPACE,
        premises=unconfused,
        violation=_off_formula,
        confirm=_confirm_off_formula,
        claims=("D.proposition-2",),
        proves="rationals",
    ),
    Statement(
        "weak-order",
        says="Also with confused tokens, which the premises of D exclude, the solution of the "
        "attention ranks no token of a kind below over one of a kind above: optimal, then confused "
        "and non-comparable, then non-optimal (a question of ours).",
        kind="false",
        space=_SPACE,
        premises=realizable,
        violation=partial(_largest_fall, ties=False),
        confirm=partial(_confirm_fall, ties=False),
        claims=("D.confused-tokens",),
        proves="rationals",
    ),
)

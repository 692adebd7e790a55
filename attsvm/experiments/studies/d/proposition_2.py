"""D: the closed form of Proposition 2, against exact columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.studies.shared.exact_columns import ExactColumns, small_set, star_set
from attsvm.experiments.study import EXAMPLE, Found, Note, Premises, Study, at_most, equals, info
from attsvm.next_token.order import KINDS
from attsvm.theory.measures import correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Query 2: one sentence 0 2 with the optimal token 0, one 1 3 4 2 with the optimal token 1.
FIVE = "five tokens"
_GIVEN = [([0, 2], 0), ([1, 3, 4, 2], 1)]
_HALF, _THIRD = Fraction(1, 2), Fraction(1, 3)
_COLUMN = [_HALF, 2 * _THIRD, -_HALF, -_THIRD, -_THIRD]


def measure(
    group: Group,
    data: str,
    vocabulary: int,
    length: tuple[int, int],
    count: int,
    longest: int,
    steps: Sequence[int],
    rates: Sequence[float],
) -> dict[str, Any]:
    """The errors of the formula in every column of every set, and the example's columns."""
    rows = shared.LongTable()
    for seed in group.seeds if data != FIVE else (EXAMPLE,):
        sentences = small_set(5, _GIVEN) if data == FIVE else star_set(
            data, seed, vocabulary=vocabulary, length=length, count=count, longest=longest
        )  # fmt: skip
        one = ExactColumns(sentences)
        several = [q for q in one.U if len(one.tokens(q, KINDS[0])) > 1]
        errors = {q: _error(one, q) for q in one.U}
        off = [q for q in several if _balanced(one, q) != (errors[q] == 0)]
        rows.add(seed, {
            "inside": not one.premises.outside,
            "closed": one.premises.closed,
            "columns": len(one.U),
            "columns off the formula": sum(error > 0 for error in errors.values()),
            "condition and formula disagree": len(off),
            "off": one.off,
            "gap": one.found.gap,
        })  # fmt: skip
        counts = [len(one.tokens(q, KINDS[0])) for q in several]
        rows.curve(seed, "error by optimal tokens", counts, [errors[q] for q in several])
        if data == FIVE:
            _add_example(rows, seed, one, shared.staged(sentences, steps, rates).W_kq[:, 2])
    return rows.columns()


def _add_example(rows: shared.LongTable, seed: int, one: ExactColumns, trained: Floats) -> None:
    """The five tokens: the exact column, the formula's and the trained one."""
    column, printed = one.U.get(2, []), _printed(one, 2)
    near, far = (_cosine(trained, u) for u in (_COLUMN, printed))
    rows.add(seed, {
        "squared norm below": _square(printed) - _square(column),
        "as worked out": column == _COLUMN,
        "trained to exact": near,
        "trained to formula": far,
    })  # fmt: skip
    rows.curve(seed, "solution", range(len(column)), column)
    rows.curve(seed, "formula", range(len(printed)), printed)


def _printed(one: ExactColumns, query: int) -> list[Fraction]:
    """The column of the formula."""
    top, low = one.tokens(query, KINDS[0]), one.tokens(query, KINDS[2])
    both = len(top) + len(low)
    out = [Fraction(0)] * one.orders[query].vocabulary
    for x in top:
        out[x] = Fraction(len(low), both)
    for x in low:
        out[x] = Fraction(-len(top), both)
    return out


def _error(one: ExactColumns, query: int) -> Fraction:
    """The largest difference between the formula and the exact column."""
    both = zip(one.U[query], _printed(one, query), strict=True)
    return max(abs(a - b) for a, b in both)


def _balanced(one: ExactColumns, query: int) -> bool:
    """|S||N| ≤ |N(S)||O| for every set S of optimal tokens, N(S) the tokens below some of it."""
    order = one.orders[query]
    below = [set(order.lo[order.hi == x].tolist()) for x in np.unique(order.hi)]
    N, size = len(set(order.lo.tolist())), len(below)
    return all(
        k * N <= len(set().union(*some)) * size
        for k in range(1, size)
        for some in combinations(below, k)
    )


def _cosine(u: Floats, exact: list[Fraction]) -> float:
    """The cosine of the angle between the two."""
    return correlation(u, np.array([float(v) for v in exact]))


def _square(u: list[Fraction]) -> Fraction:
    return sum((v * v for v in u), Fraction(0))


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """The formula against exact columns: five tokens, drawn columns, closed sets."""
    every = shared.numbers_of(table)
    ok = every[every.inside == 1]
    five, drawn = every[every.data == FIVE].squeeze(), ok[ok.data != FIVE]
    closed = drawn[drawn.closed == 1]
    opened = drawn[drawn.closed == 0]
    several = curves_in(table, opened)
    wrong = int((several.value > 0).sum())
    what = "five tokens: squared norm of the solution below the formula's"
    yield equals(what, five["squared norm below"], 0)
    yield equals("columns with several optimal tokens off the formula", wrong, 0)
    yield equals("five tokens: exact column worked out by hand", five["as worked out"], 1)
    what = "five tokens: trained column nearer to the exact one than to the formula"
    yield equals(what, five["trained to exact"] > five["trained to formula"], 1)
    disagree = opened["condition and formula disagree"].sum()
    yield equals("columns where the condition on subsets and the formula disagree", disagree, 0)
    off = closed["columns off the formula"].sum()
    yield equals("closed sets: columns off the formula", off, 0)
    what = "five tokens: cosine of the trained column to the exact one"
    yield info(what, five["trained to exact"])
    yield info("columns with several optimal tokens", len(several))
    yield info("of these, share off the formula", wrong / len(several) if len(several) else np.nan)
    yield info("largest error of the formula", several.value.max() if len(several) else 0.0)
    yield info("closed sets: columns", closed["columns"].sum())
    yield at_most("kept columns from the exact ones", np.max(ok.off.array), 1e-9)
    gap = float(np.max(every.gap.array))
    yield at_most("largest certified gap", gap, 1e-9)
    yield Premises(
        len(ok),
        f"{len(ok)} of {len(every)} sets inside Assumptions 1 to 3; {len(several)} columns with "
        f"several optimal tokens, {int(closed['columns'].sum())} columns of sets closed under "
        "prefixes, all in exact arithmetic",
        gap,
    )
    yield Note(
        "Five tokens: with the query 2 the sentences 0 2 and 1 3 4 2, whose optimal tokens are 0 "
        "and 1, have the exact column (1/2, 2/3, −1/2, −1/3, −1/3) of squared norm 7/6; the "
        "formula gives (3/5, 3/5, −2/5, −2/5, −2/5), 6/5. Of the drawn columns with several "
        f"optimal tokens {wrong} of {len(several)} differ from it. The formula is right "
        "exactly when |S||N| ≤ |N(S)||O| for every set S of optimal tokens; in sets closed under "
        "prefixes, the setting of the paper, each query has one optimal token and it always is."
    )


def curves_in(table: DataFrame, sets: DataFrame) -> DataFrame:
    """The errors of the columns with several optimal tokens of these sets, one row per column."""
    rows = table[table.quantity == "error by optimal tokens"]
    return rows.merge(sets[["data", "seed"]], on=["data", "seed"])


def figure(table: DataFrame, study: Study) -> Figure:
    """The five-token column beside the formula, and the errors of drawn columns."""
    from attsvm.plotting.studies import CYCLE, level, panels

    drawn, (left, right) = panels(2)
    level(left, 0.0)
    for name, mark, colour in (("solution", "o", CYCLE[0]), ("formula", "x", CYCLE[1])):
        left.plot(
            range(5), shared.curves_of(table, name).iloc[:, 0], mark, color=colour, label=name
        )
    left.set_xticks(range(5), ("optimal 0", "optimal 1", "query 2", "3", "4"), fontsize=7.5)
    left.set(xlabel="token", ylabel="entry of the column", title="Five tokens")
    left.legend(frameon=False)
    every = shared.numbers_of(table)
    opened = every[(every.inside == 1) & (every.closed == 0) & (every.data != FIVE)]
    several = curves_in(table, opened)
    right.plot(several["x"], several.value, "o", alpha=0.4, markersize=4, color=CYCLE[0])
    right.set(xlabel="optimal tokens of the query", ylabel="largest error of the formula",
              title=f"{len(several)} columns, {int((several.value > 0).sum())} off the formula",
              )  # fmt: skip
    right.set_xticks(sorted(several["x"].unique()))
    return drawn


STUDY = Study(
    id="D.proposition-2",
    title="The closed form of the attention's solution",
    kind="theorem",
    source="paper",
    statement="Under Assumptions 1 and 2 the column of W_kq⋆ has the entries |N|/(|O| + |N|) at "
    "the optimal tokens O of the query, −|O|/(|O| + |N|) at its non-optimal tokens N, and 0 "
    "elsewhere (v2, Proposition 2).",
    grid={"data": ["unconfused", "closed", FIVE]},
    run={
        "vocabulary": 20,
        "length": [2, 5],
        "count": 68,
        "longest": 6,
        "steps": [2000, 4000],
        "rates": [0.2, 0.05],
    },
    seeds=60,
    group=20,
    measure=measure,
    checks=checks,
    quick={"seeds": 6},
    figure=figure,
    differs="As printed the closed form is wrong with several optimal tokens: its proof takes "
    "every pair of an optimal and a non-optimal token for tight, also pairs that never share a "
    "sentence, and drops the sign of the multipliers. Five tokens are enough, in fractions. In the "
    "paper's setting, where every prefix of a sentence is a training sentence, each query has one "
    "optimal token and the closed form is right.",
    reference="huang2024nexttoken",
    theorem="v2, Proposition 2",
)

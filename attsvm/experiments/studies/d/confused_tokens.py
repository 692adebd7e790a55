"""D: what confused tokens, which the paper excludes, do to the order of kinds."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.exact_columns import ExactColumns, Given, small_set, worst
from attsvm.experiments.studies.shared.sentence_runs import (
    drawn,
    ends_kept,
    paths_kept,
    saved_columns,
    staged,
)
from attsvm.next_token.order import KINDS, orders
from attsvm.next_token.problems import solve_attention
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.unseen import PAIRS, answer_unseen, kinds_in_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Small sets; the last token is in no sentence.
EXAMPLES: dict[str, tuple[int, Given]] = {
    "tie": (5, [([0, 1, 3], 0), ([1, 3], 1), ([2, 3], 2)]),
    "reversal": (6, [([0, 1, 4], 0), ([1, 2, 4], 1), ([2, 4], 2), ([3, 4], 3)]),
}
# The columns of their queries.
_HALF = Fraction(1, 2)
COLUMNS = {
    "tie": [Fraction(1), Fraction(0), Fraction(0), Fraction(-1), Fraction(0)],
    "reversal": [3 * _HALF, _HALF, -_HALF, Fraction(0), -3 * _HALF, Fraction(0)],
}


def _sets(config: Config) -> dict[str, Sentences]:
    """All sets by name: those drawn by their seed, and the examples."""
    return {str(seed): drawn(config, seed) for seed in seeds_of(config)} | {
        name: small_set(*given) for name, given in EXAMPLES.items()
    }


def _trained(config: Config) -> list[str]:
    """The names of the drawn sets that are trained on."""
    return [str(seed) for seed in seeds_of(config)[: config["trained"]]]


def run(config: Config) -> Result:
    """The solution of every set; both stages on some of them and on the examples."""
    out: Result = {}
    for name, sentences in _sets(config).items():
        found = solve_attention(orders(sentences), np.eye(sentences.vocabulary))
        out |= saved_columns(f"{name}.best", found)
        if name in EXAMPLES:
            out |= paths_kept(name, staged(config, sentences))
        elif name in _trained(config):
            out |= ends_kept(name, staged(config, sentences))
    return out


def _pairs(one: ExactColumns, W: Floats | None = None) -> Floats:
    """Pairs strict, tied and reversed (5, 3) in the order of PAIRS: of the solution, or of W."""
    total = np.zeros((len(PAIRS), 3))
    for q, u in one.U.items():
        column = np.array([float(v) for v in u]) if W is None else W[:, q]
        found = kinds_in_order(one.orders[q], column, accuracy=1e-9 if W is None else 0.0)
        total += [[found[pair].strict, found[pair].tied, found[pair].reversed] for pair in PAIRS]
    return total


def _idle(one: ExactColumns) -> int:
    """Optimal and non-optimal tokens whose entry is not 0 exactly where a multiplier is not."""
    return sum(
        (u[x] != 0) != (x in one.busy[q])
        for q, u in one.U.items()
        for k in (0, 2)
        for x in one.tokens(q, KINDS[k])
    )


def _sums(one: ExactColumns) -> float:
    """The largest sum of a kept column over a part of its order."""
    return max(
        float(np.abs(np.bincount(o.parts, one.found.W[o.tokens, q])).max(initial=0.0))
        for q, o in one.orders.items()
    )


def check(config: Config, result: Result) -> Finding:
    """The weak optimizer, exactly; then ties and reversals, in the solution and after training."""
    sets = {name: ExactColumns(name, s, result) for name, s in _sets(config).items()}
    ok = {n: one for n, one in sets.items() if one.premises.realizable and one.premises.dominant}
    beyond = sum(bool(one.premises.confused.size) for one in ok.values())
    gap = max(one.found.gap for one in sets.values())
    kinds = {k: [v for one in ok.values() for v in one.entries(k)] for k in KINDS}
    ends = {n: result[f"{n}.W_kq"][-1] for n in EXAMPLES if n in ok}
    ends |= {n: result[f"{n}.W_kq"] for n in _trained(config) if n in ok}
    solution = np.sum([_pairs(one) for one in ok.values()], axis=0)
    learned = np.sum([_pairs(ok[name], W) for name, W in ends.items()], axis=0)
    lowest = [v for name, one in ok.items() if name not in EXAMPLES for v in one.entries(KINDS[2])]
    words = np.array([[1, 3, 4], [3, 5, 4]])  # confused and optimal; optimal and never seen
    last = {block: result[f"reversal.{block}"][-1] for block in ("W_ov", "W_kq")}
    answer = answer_unseen(words, last["W_ov"], last["W_kq"], np.eye(6))
    tests = (
        equals("optimal tokens below 0", sum(v < 0 for v in kinds[KINDS[0]]), 0),
        equals("non-optimal tokens above 0", sum(v > 0 for v in kinds[KINDS[2]]), 0),
        equals("non-comparable tokens not at 0", sum(one.stray() for one in ok.values()), 0),
        equals(
            "optimal and non-optimal tokens not at 0 just where a multiplier is above 0",
            sum(_idle(one) for one in ok.values()),
            0,
        ),
        at_most("largest sum of a column over a part", max(_sums(o) for o in ok.values()), 1e-9),
        at_most("kept columns from the exact ones", worst([o.off for o in ok.values()]), 1e-9),
        equals(
            "examples whose exact column is the one worked out by hand",
            sum(sets[n].U.get(EXAMPLES[n][1][0][0][-1]) == COLUMNS[n] for n in EXAMPLES),
            len(EXAMPLES),
        ),
        equals(
            "trained entries whose sign is not that of their kind",
            sum(ok[name].wrong_signs(W) for name, W in ends.items()),
            0,
        ),
        at_least("pairs of kinds tied in the solution", solution[:, 1].sum(), 1),
        at_least("pairs of kinds reversed in the solution", solution[:, 2].sum(), 1),
        at_least("pairs of kinds reversed after training", learned[:, 2].sum(), 1),
        equals("five tokens: the trained model answers by the confused one", answer.output[0], 2),
        *(
            noted(f"{a} over {b}: pairs {what} in the solution", n)
            for (a, b), row in zip(PAIRS, solution, strict=True)
            for what, n in zip(("strict", "tied", "reversed"), row, strict=True)
        ),
        noted(
            "drawn sets: share of non-optimal tokens at exactly 0",
            sum(v == 0 for v in lowest) / max(len(lowest), 1),
        ),
        noted(
            "five tokens: attention on the optimal token beside a non-comparable one",
            answer.mass[1],
        ),
        at_most("largest certified gap", gap, 1e-9),
    )
    return Finding(
        tests,
        f"{len(ok)} of {len(sets)} sets realizable with optimal tokens that occur most, {beyond} "
        f"of them with confused tokens, outside the paper's premises; {len(ends)} trained on; "
        f"{sum(len(one.U) for one in ok.values())} columns in exact arithmetic",
        beyond,
        gap,
        f"Of {int(solution.sum())} pairs that the ordering of kinds puts one over the other, "
        f"{int(solution[:, 1].sum())} tie in the solution and {int(solution[:, 2].sum())} are "
        f"reversed, all of these with a confused token. After training {int(learned[:, 2].sum())} "
        f"of {int(learned.sum())} are reversed: a confused token of a long chain is above an "
        "optimal one whose constraints are slack. With the query 4, the sentences 0 1 4, 1 2 4, "
        "2 4, 3 4 and the optimal tokens 0, 1, 2, 3 the exact column is (3/2, 1/2, −1/2, 0, −3/2).",
    )


def plot(config: Config, result: Result) -> Figure:
    """The entries of the drawn sets by kind, and the five-token example as it is trained."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels, scattered_kinds

    sets = [ExactColumns(n, s, result) for n, s in _sets(config).items() if n not in EXAMPLES]
    figure, (left, right) = panels(2)
    kinds = (KINDS[0], KINDS[1], KINDS[3], KINDS[2])
    scattered_kinds(left, {k: [v for one in sets for v in one.entries(k)] for k in kinds})
    left.set(title=f"{len(sets)} drawn sets")
    steps, W = result["reversal.W_kq.steps"], result["reversal.W_kq"][:, :, 4]
    names = (
        "0: optimal",
        "1: confused",
        "2: confused",
        "3: optimal",
        "4: non-optimal",
        "5: non-comparable",
    )
    for x, name in enumerate(names):
        right.plot(
            steps[1:], W[1:, x], color=CYCLE[x], label=name, linestyle="-" if x != 5 else ":"
        )
    right.set_xscale("log")
    right.set_yscale("symlog", linthresh=0.1)
    right.set(
        xlabel="update of the second stage",
        ylabel="entry of W_kq (linear within 0.1)",
        title="The example: token 1 passes token 3",
    )
    right.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


_FULL = {
    "vocabulary": 20,
    "length": 4,
    "count": 68,
    "seeds": 40,
    "trained": 5,
    "steps": [2000, 4000],
    "rates": [0.2, 0.05],
}

CLAIM = Claim(
    id="D.confused-tokens",
    title="Confused tokens, which the paper excludes, tie and reverse the order of kinds",
    kind="question",
    trust="measured",
    statement="Where a query has confused tokens, outside the premises of the paper, optimal "
    "tokens are at or above 0, non-comparable ones at 0 and non-optimal ones at or below 0, "
    "strictly just where a constraint of the token has a multiplier above 0. Confused tokens may "
    "be anywhere: some pairs of kinds tie, and some are reversed, also after training.",
    full=_FULL,
    quick={**_FULL, "seeds": 6, "trained": 1},
    run=run,
    check=check,
    plot=plot,
    reference="huang2024nexttoken",
)

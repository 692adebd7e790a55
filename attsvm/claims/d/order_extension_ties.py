"""D: how far the solution extends the order of training: kinds of tokens, ties and reversals."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from attsvm.certificate import Certificate
from attsvm.certificate.exact.bounds import exact_tight
from attsvm.claims.claim import Claim, Config, Finding, Result, at_most, equals, noted, seeds_of
from attsvm.claims.shared.sentence_runs import (
    columns_again,
    drawn,
    ends_kept,
    inside,
    paths_kept,
    saved_columns,
    staged,
)
from attsvm.ground.arrays import Floats
from attsvm.language.covering import PAIRS, kinds_in_order
from attsvm.language.order import KINDS, Order, orders
from attsvm.language.problems import solve_attention
from attsvm.language.sentences import Sentences
from attsvm.language.unseen import trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Small sets: the tokens of each sentence, its query last, and its optimal token. x is followed by
# x + 1, and the last token by the first; the last one is in no sentence.
EXAMPLES: dict[str, tuple[int, list[tuple[list[int], int]]]] = {
    "star": (6, [([0, 1, 2, 3, 4], 0)]),
    "tie": (5, [([0, 1, 3], 0), ([1, 3], 1), ([2, 3], 2)]),
    "reversal": (6, [([0, 1, 4], 0), ([1, 2, 4], 1), ([2, 4], 2), ([3, 4], 3)]),
}
# The columns of their queries.
_HALF = Fraction(1, 2)
COLUMNS = {
    "star": [Fraction(4, 5), *[Fraction(-1, 5)] * 4, Fraction(0)],
    "tie": [Fraction(1), Fraction(0), Fraction(0), Fraction(-1), Fraction(0)],
    "reversal": [3 * _HALF, _HALF, -_HALF, Fraction(0), -3 * _HALF, Fraction(0)],
}


def example(name: str) -> Sentences:
    """The sentences of one of the EXAMPLES."""
    N, given = EXAMPLES[name]
    lines = [[x, (x + 1) % N] for x in range(N)]
    return Sentences.of(lines + [[*words, (best + 1) % N] for words, best in given], vocabulary=N)


def _sets(config: Config) -> dict[str, Sentences]:
    """All sets by name: those drawn by their seed, and the examples."""
    return {str(seed): drawn(config, seed) for seed in seeds_of(config)} | {
        name: example(name) for name in EXAMPLES
    }


def run(config: Config) -> Result:
    """The solution of every set; both stages on some of them and on the examples."""
    out: Result = {}
    for name, sentences in _sets(config).items():
        found = solve_attention(orders(sentences), np.eye(sentences.vocabulary))
        out |= saved_columns(f"{name}.best", found)
        if name in EXAMPLES:
            out |= paths_kept(name, staged(config, sentences))
        elif int(name) in seeds_of(config)[: config["trained"]]:
            out |= ends_kept(name, staged(config, sentences))
    return out


class _Columns:
    """The columns of one set in exact arithmetic, with what they say of the kinds of tokens."""

    def __init__(self, name: str, sentences: Sentences, result: Result) -> None:
        self.orders = orders(sentences)
        self.inside = inside(sentences, self.orders)
        self.found = columns_again(f"{name}.best", self.orders, result)
        self.U: dict[int, list[Fraction]] = {}
        self.idle = 0  # tokens whose entry is not 0 exactly where a multiplier is not
        self.off = 0.0  # the kept columns from the exact ones, nan when there is no exact one
        self.sums = 0.0
        asked = [order for order in self.orders.values() if len(order.covers[0])]
        for order, piece in zip(asked, self.found.pieces, strict=True):
            kept = self.found.W[:, order.query]
            sums = np.bincount(order.parts, kept[order.tokens])
            self.sums = max(self.sums, float(np.abs(sums).max()))
            u, busy = _exact(order, piece)
            if not u:
                self.off = float("nan")
                continue
            self.U[order.query] = u
            self.off = max(self.off, float(np.abs(kept - [float(v) for v in u]).max()))
            ends = [int(x) for x in order.tokens[order.kinds != KINDS[1]]]
            self.idle += sum((u[x] != 0) != (x in busy) for x in ends)

    def entries(self, kind: str) -> list[Fraction]:
        """The exact entries of all tokens of this kind."""
        return [
            u[x] for q, u in self.U.items() for x in range(len(u)) if self.orders[q].kind(x) == kind
        ]

    def pairs(self, W: Floats | None = None) -> dict[tuple[str, str], tuple[int, int, int]]:
        """Pairs strict, tied and reversed for each pair of kinds: of the solution, or of W."""
        total = dict.fromkeys(PAIRS, (0, 0, 0))
        for q, u in self.U.items():
            column = np.array([float(v) for v in u]) if W is None else W[:, q]
            found = kinds_in_order(self.orders[q], column, accuracy=1e-9 if W is None else 0.0)
            for pair, p in found.items():
                a, b, c = total[pair]
                total[pair] = a + p.strict, b + p.tied, c + p.reversed
        return total

    def wrong_signs(self, W: Floats) -> int:
        """Entries of W that are not > 0 (optimal), = 0 (non-comparable), < 0 (non-optimal)."""
        sign = {KINDS[0]: 1, KINDS[2]: -1, KINDS[3]: 0}
        return sum(
            int(np.sign(W[x, q])) != sign.get(order.kind(x), int(np.sign(W[x, q])))
            for q, order in self.orders.items()
            for x in range(order.vocabulary)
        )


def _exact(order: Order, piece: Certificate) -> tuple[list[Fraction], set[int]]:
    """(the exact column (N,), the tokens on a constraint with a multiplier above 0)."""
    solved = exact_tight(piece.problem, piece.multipliers)
    if solved is None or piece.W is None:
        return [], set()
    u = [Fraction(0)] * order.vocabulary
    x, below = solved.matrix, solved.matrix.denominator
    for place, token in enumerate(order.tokens.tolist()):
        u[token] = Fraction(int(x.numerators[order.component[place], 0]), int(below))
    used = np.asarray(solved.multipliers.numerators > 0, bool)
    hi, lo = order.covers
    return u, set(order.tokens[np.concatenate([hi[used], lo[used]])].tolist())


def _trained(config: Config, name: str, result: Result) -> Floats | None:
    """W_kq at the end of training, None where the set was not trained on."""
    if name in EXAMPLES:
        return result[f"{name}.W_kq"][-1]
    return result[f"{name}.W_kq"] if int(name) < config["trained"] else None


def _added(parts: list[dict[tuple[str, str], tuple[int, int, int]]]) -> Floats:
    """All pairs (strict, tied, reversed), (5, 3) in the order of PAIRS."""
    return np.sum([[part[pair] for pair in PAIRS] for part in parts], axis=0)


def check(config: Config, result: Result) -> Finding:
    """The weak rule, exactly; then the strict ordering, in the solution and after training."""
    sets = {name: _Columns(name, s, result) for name, s in _sets(config).items()}
    ok = {name: one for name, one in sets.items() if one.inside}
    gap = max(one.found.gap for one in sets.values())
    kinds = {kind: [v for one in ok.values() for v in one.entries(kind)] for kind in KINDS}
    ends = {n: W for n in ok if (W := _trained(config, n, result)) is not None}
    solution = _added([one.pairs() for one in ok.values()])
    learned = _added([ok[name].pairs(W) for name, W in ends.items()])
    lowest = [v for name, one in ok.items() if name not in EXAMPLES for v in one.entries(KINDS[2])]
    words = np.array([[1, 3, 4], [3, 5, 4]])  # confused and optimal; optimal and never seen
    last = {block: result[f"reversal.{block}"][-1] for block in ("W_ov", "W_kq")}
    answer = trained(words, last["W_ov"], last["W_kq"], np.eye(6))
    tests = (
        equals("optimal tokens below 0", sum(v < 0 for v in kinds[KINDS[0]]), 0),
        equals("non-optimal tokens above 0", sum(v > 0 for v in kinds[KINDS[2]]), 0),
        equals(
            "non-comparable tokens not at 0",
            sum(
                int((np.delete(one.found.W[:, q], o.tokens) != 0).sum())
                for one in ok.values()
                for q, o in one.orders.items()
            ),
            0,
        ),
        equals(
            "optimal and non-optimal tokens not at 0 just where a multiplier is above 0",
            sum(one.idle for one in ok.values()),
            0,
        ),
        at_most("largest sum of a column over a part", max(o.sums for o in ok.values()), 1e-9),
        at_most("kept columns from the exact ones", _worst([o.off for o in ok.values()]), 1e-9),
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
        equals("strict ordering: pairs tied in the solution", solution[:, 1].sum(), 0),
        equals("strict ordering: pairs reversed in the solution", solution[:, 2].sum(), 0),
        equals("strict ordering: pairs tied or reversed after training", learned[:, 1:].sum(), 0),
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
        f"{len(ok)} of {len(sets)} sets realizable with dominant optimal tokens, "
        f"{len(ends)} of them trained on; {sum(len(one.U) for one in ok.values())} columns in "
        "exact arithmetic",
        int(solution.sum()),
        gap,
        f"Of {int(solution.sum())} pairs that the ordering of kinds puts one over the other, "
        f"{int(solution[:, 1].sum())} tie in the solution and {int(solution[:, 2].sum())} are "
        f"reversed, all of these with a confused token. After training {int(learned[:, 2].sum())} "
        f"of {int(learned.sum())} are reversed: a confused token of a long chain is above an "
        "optimal one whose constraints are slack.",
    )


def _worst(values: list[float]) -> float:
    """The largest; nan when one is not known."""
    return float(np.max(values)) if values else float("nan")


def plot(config: Config, result: Result) -> Figure:
    """The entries of the drawn sets by kind, and the five-token example as it is trained."""
    from attsvm.claims.shared.drawing import CYCLE, level, panels

    sets = [_Columns(n, s, result) for n, s in _sets(config).items() if n not in EXAMPLES]
    figure, (left, right) = panels(2)
    level(left, 0.0)
    marks = []
    for k, kind in enumerate((KINDS[0], KINDS[1], KINDS[3], KINDS[2])):
        exact = [v for one in sets for v in one.entries(kind)]
        values, times = np.unique([float(v) for v in exact], return_counts=True)
        left.scatter(
            np.full(len(values), k),
            values,
            s=6 + 160 * times / max(len(exact), 1),
            color=CYCLE[k],
            alpha=0.7,
            linewidth=0,
        )
        zero = np.mean([v == 0 for v in exact]) if exact else 0.0
        marks.append(f"{kind}\n{100 * zero:.0f} % at 0")
    left.set_xticks(range(4), marks, fontsize=7.5)
    left.set(
        xlabel="kind of token (area: share of its kind)",
        ylabel="entry of the solution",
        xlim=(-0.5, 3.5),
        title=f"{len(sets)} drawn sets",
    )
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
    id="D.order-extension-ties",
    title="The order of kinds on unseen pairs is weak",
    kind="theorem",
    trust="as recalled",
    statement="For each query the trained attention ranks optimal tokens above confused and "
    "non-comparable ones, and these above non-optimal ones, strictly.",
    full=_FULL,
    quick={**_FULL, "seeds": 6, "trained": 1},
    run=run,
    check=check,
    plot=plot,
    differs="The strict ordering does not follow from the problem of the attention. By its "
    "optimality conditions optimal tokens are at or above 0, non-comparable ones at 0 and "
    "non-optimal ones at or below 0, strictly just where a constraint of the token has a "
    "multiplier above 0; confused tokens may be anywhere. With the query 4, the sentences 0 1 4, "
    "1 2 4, 2 4, 3 4 and the optimal tokens 0, 1, 2, 3, the exact column is (3/2, 1/2, −1/2, 0, "
    "−3/2): the confused token 1 is above the optimal token 3, and the trained model puts all "
    "attention of 1 3 4 on 1. With 0 1 3, 1 3, 2 3 and the optimal tokens 0, 1, 2 the column is "
    "(1, 0, 0, −1): the optimal token 2 ties with tokens never seen. Signs after finite training "
    "are strict, but where the solution ties the entry does not grow with the rest, and attention "
    "stays divided. The columns are certified again and solved in exact arithmetic. No code was "
    "released, and the ordering is stated here as recalled: it may rest on a premise that is "
    "missing.",
    reference="huang2024nexttoken",
)

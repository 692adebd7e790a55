"""D: without confused tokens the kinds of tokens are ordered strictly; with prefixes, by stars."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.datasets.sentences import closed, paper_example, unconfused
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
from attsvm.experiments.studies.shared.exact_columns import ExactColumns, worst
from attsvm.experiments.studies.shared.sentence_runs import (
    ends_kept,
    paths_kept,
    saved_columns,
    staged,
)
from attsvm.next_token.order import KINDS, orders
from attsvm.next_token.problems import solve_attention
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.unseen import answer_unseen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "paper"
# The columns of the paper's Example 1 by query: entries of S, V, O, P.
_HALF, _THIRD, _ZERO = Fraction(1, 2), Fraction(1, 3), Fraction(0)
COLUMNS = {
    "S": [_HALF, _ZERO, _ZERO, -_HALF],
    "V": [-_HALF, _HALF, _ZERO, _ZERO],
    "O": [-_THIRD, -_THIRD, 2 * _THIRD, _ZERO],
    "P": [_ZERO, _ZERO, _HALF, -_HALF],
}
# Its Example 2: unseen sentences, and their next token.
UNSEEN = (("S P", "V"), ("O S P", "P"))
_WORDS = tuple(COLUMNS)


def sets_of(config: Config) -> dict[str, Sentences]:
    """The drawn sets of both families, by family and seed."""
    N, lengths = config["vocabulary"], tuple(config["length"])
    out: dict[str, Sentences] = {}
    for seed in seeds_of(config):
        drawn = {
            "unconfused": unconfused(N, lengths, config["count"], seed),
            "closed": closed(N, config["longest"], seed=seed),
        }
        out |= {f"{name}.{seed}": Sentences.of(d, vocabulary=N) for name, d in drawn.items()}
    return out


def _sets(config: Config) -> dict[str, Sentences]:
    """The drawn sets and the paper's Example 1."""
    return sets_of(config) | {PAPER: Sentences.of(paper_example(), vocabulary=_WORDS)}


def _trained(config: Config) -> list[str]:
    """The names of the sets that are trained on."""
    seeds = seeds_of(config)[: config["trained"]]
    return [*(f"{name}.{seed}" for seed in seeds for name in ("unconfused", "closed")), PAPER]


def run(config: Config) -> Result:
    """The solution of every set; on some both stages, the second taken on to twice its updates."""
    out: Result = {}
    for name, sentences in _sets(config).items():
        found = solve_attention(orders(sentences), np.eye(sentences.vocabulary))
        out |= saved_columns(f"{name}.best", found)
        if name not in _trained(config):
            continue
        stages = staged(config, sentences)
        out |= ends_kept(name, stages)
        later = train(
            sentences,
            model="next-token",
            head=stages.W_ov,
            steps=config["steps"][1],
            lr=stages.attention.config["lr"],
            init={"W_kq": stages.W_kq},
        )
        out[f"{name}.later"] = later.weights["W_kq"][-1, 0]
        if name == PAPER:
            out |= paths_kept("path", stages)
    return out


def _gaps(one: ExactColumns, W: Floats) -> Floats:
    """How far optimal tokens are above non-comparable ones, and these above non-optimal ones.

    The least over all queries (2,); a query whose order has every token is compared with 0.
    """
    found = np.full(2, np.inf)
    for q in (q for q, order in one.orders.items() if len(order.tokens)):
        optimal, lowest, others = (W[one.tokens(q, KINDS[k]), q] for k in (0, 2, 3))
        found[0] = min(found[0], optimal.min() - others.max(initial=0.0))
        found[1] = min(found[1], others.min(initial=0.0) - lowest.max())
    return found


def _growth(before: Floats, after: Floats) -> float:
    """The least ratio of two gaps; nan where a gap is not open at first."""
    return float((after / before).min()) if (before > 0).all() else float("nan")


def _off_star(one: ExactColumns) -> int:
    """Queries that have not one optimal token, m/(m + 1), over m others, −1/(m + 1)."""
    wrong = 0
    for q, u in one.U.items():
        top, low = one.tokens(q, KINDS[0]), one.tokens(q, KINDS[2])
        m = len(low)
        star = [u[x] for x in top] == [Fraction(m, m + 1)]
        wrong += not (star and all(u[x] == Fraction(-1, m + 1) for x in low))
    return wrong


def _most_optimal(sentences: Sentences) -> int:
    """The most optimal tokens that a query has."""
    return max((int((o.kinds == KINDS[0]).sum()) for o in orders(sentences).values()), default=0)


def _more(config: Config) -> list[Sentences]:
    """Further closed sets, of 2 to 13 tokens and lengths 2 to 8, for the number of optimal ones."""
    return [
        Sentences.of(closed(2 + k % 12, 2 + k % 7, seed=k), vocabulary=2 + k % 12)
        for k in range(config["more"])
    ]


def _answers(result: Result) -> int:
    """How many of the paper's unseen sentences are answered as printed."""
    right = 0
    for text, label in UNSEEN:
        words = np.array([[_WORDS.index(w) for w in text.split()]])
        end = answer_unseen(words, result[f"{PAPER}.W_ov"], result[f"{PAPER}.later"], np.eye(4))
        right += int(end.output[0]) == _WORDS.index(label)
    return right


def check(config: Config, result: Result) -> Finding:
    """Signs in fractions, signs and growth after training, and stars in closed sets."""
    sets = {name: ExactColumns(name, s, result) for name, s in _sets(config).items()}
    ok = {name: one for name, one in sets.items() if not one.premises.outside}
    closed_sets = [one for one in ok.values() if one.premises.closed]
    top, low = ([v for one in ok.values() for v in one.entries(KINDS[k])] for k in (0, 2))
    gap = max(one.found.gap for one in sets.values())
    ends = [(ok[n], result[f"{n}.W_kq"], result[f"{n}.later"]) for n in _trained(config) if n in ok]
    growth = [_growth(_gaps(one, W), _gaps(one, later)) for one, W, later in ends]
    more = _more(config)
    most = [_most_optimal(s) for s in more] + [
        sum(one.orders[q].kinds == KINDS[0]) for one in closed_sets for q in one.U
    ]
    paper = sets[PAPER]
    columns = sum(len(one.U) for one in ok.values())
    tests = (
        equals("optimal tokens not above 0", sum(v <= 0 for v in top), 0),
        equals("non-optimal tokens not below 0", sum(v >= 0 for v in low), 0),
        equals("non-comparable tokens not at 0", sum(one.stray() for one in ok.values()), 0),
        equals(
            "trained entries whose sign is not that of their kind",
            sum(one.wrong_signs(W) for one, *both in ends for W in both),
            0,
        ),
        at_least(
            "gaps between kinds at twice the updates over those before, least",
            float(np.min(growth)) if growth else float("nan"),
            1.8,
        ),
        equals("closed sets: most optimal tokens of a query", max(most, default=0), 1),
        equals(
            "closed sets: columns other than m/(m + 1), −1/(m + 1)",
            sum(_off_star(one) for one in closed_sets),
            0,
        ),
        equals(
            "Example 1: columns worked out by hand",
            sum(paper.U.get(q) == COLUMNS[word] for q, word in enumerate(_WORDS)),
            4,
        ),
        equals("Example 2: unseen sentences answered as printed", _answers(result), 2),
        noted("least entry of an optimal token", float(min(top, default=Fraction(0)))),
        noted("largest entry of a non-optimal token", float(max(low, default=Fraction(0)))),
        noted("columns with several optimal tokens", _several(ok)),
        at_most("kept columns from the exact ones", worst([o.off for o in ok.values()]), 1e-9),
        at_most("largest certified gap", gap, 1e-9),
    )
    return Finding(
        tests,
        f"{len(ok)} of {len(sets)} sets inside Assumptions 1 to 3, {len(closed_sets)} of them "
        f"closed under prefixes, {len(ends)} trained on; {columns} columns in exact arithmetic; "
        f"{len(more)} further closed sets for the number of optimal tokens",
        len(ok),
        gap,
    )


def _several(sets: dict[str, ExactColumns]) -> int:
    """Columns with several optimal tokens."""
    return sum(len(one.tokens(q, KINDS[0])) > 1 for one in sets.values() for q in one.U)


def plot(config: Config, result: Result) -> Figure:
    """The exact entries by kind, and Example 1 as its attention is trained."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels, scattered_kinds

    sets = [ExactColumns(name, s, result) for name, s in sets_of(config).items()]
    figure, (left, right) = panels(2)
    kinds = (KINDS[0], KINDS[3], KINDS[2])
    scattered_kinds(left, {k: [v for one in sets for v in one.entries(k)] for k in kinds})
    left.set(title=f"{len(sets)} drawn sets")
    steps, W = result["path.W_kq.steps"], result["path.W_kq"][:, :, _WORDS.index("O")]
    for x, word in enumerate(_WORDS):
        right.plot(steps[1:], W[1:, x], color=CYCLE[x], label=word)
    right.set_xscale("log")
    right.set(
        xlabel="update of the second stage",
        ylabel="entry of W_kq",
        title="Example 1, query O: O above S and V",
    )
    right.legend(frameon=False)
    return figure


_FULL = {
    "vocabulary": 20,
    "length": [2, 5],
    "count": 68,
    "longest": 6,
    "seeds": 40,
    "trained": 5,
    "steps": [2000, 4000],
    "rates": [0.2, 0.05],
    "more": 1000,
}

CLAIM = Claim(
    id="D.star-orders",
    title="Kinds of tokens are ordered strictly, by stars in closed sets",
    kind="theorem",
    trust="read",
    statement="Without confused tokens the column of a query is above 0 at optimal, 0 at "
    "non-comparable and below 0 at non-optimal tokens, in the solution and, with gaps that grow "
    "like t (v2, Theorem 3), after training. In sets that hold every prefix of their sentences "
    "each query has one optimal token over m others, and the entries are m/(m + 1) and "
    "−1/(m + 1).",
    full=_FULL,
    quick={**_FULL, "seeds": 4, "trained": 1, "more": 100},
    run=run,
    check=check,
    plot=plot,
    reference="huang2024nexttoken",
    numbered="v2, Theorem 3",
)

"""What the studies on next-token prediction share: sets, their two stages, and long tables.

Their tables are long: a row is one number (`value`) of one instance (`seed`), named by `quantity`;
`x` is the step of a curve, or another number that the value belongs to, and nan of numbers that
stand alone. Curves are thinned for the table; what is judged is found from all records before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate, certify
from attsvm.datasets.sentences import closed
from attsvm.experiments.group import divergence, thinned
from attsvm.experiments.study import Premises, Table
from attsvm.next_token.attention import Contexts
from attsvm.next_token.infimum import excess
from attsvm.next_token.order import Order, orders
from attsvm.next_token.problems import Columns, decoder_problem, solve_attention, solve_decoder
from attsvm.next_token.realizable import realizability
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training.train import SentenceRun
from attsvm.theory.rates import fit

# Tokens of a drawn set.
TOKENS = 20
# The published step sizes of both stages.
LR = (float(0.2 / np.sqrt(TOKENS)), float(0.05 / np.sqrt(TOKENS)))
# Points of a curve in a table.
MOST = 60
# The standard figure of a long table: its curves.
CURVES = {
    "kind": "curves",
    "x": "x",
    "value": "value",
    "where": lambda table: table["x"] > 0,
}


class LongTable(list[dict[str, Any]]):
    """The parts of a long table, as a measure fills them."""

    def add(self, seed: int, numbers: Mapping[str, Any]) -> None:
        """Numbers that stand alone, by quantity."""
        for quantity, value in numbers.items():
            self.curve(seed, quantity, np.nan, value)

    def curve(self, seed: int, quantity: str, x: Any, values: Any) -> None:
        """Values at these x, all of them."""
        x, values = (np.asarray(part, dtype=np.float64) for part in (x, values))
        self.append({"seed": seed, "quantity": quantity, "x": x, "value": values})

    def run(self, seed: int, steps: Ints, curves: Mapping[str, Any]) -> None:
        """Curves over the records of a run, thinned evenly over the records."""
        kept = thinned(steps, MOST)
        for quantity, values in curves.items():
            self.curve(seed, quantity, steps[kept], np.asarray(values)[kept])


def numbers_of(table: Table) -> Table:
    """The numbers that stand alone: one row per instance, one column per quantity."""
    alone = table[table["x"].isna()].drop(columns="x")
    keys = [name for name in alone if name != "value"]
    alone = alone.drop_duplicates(keys)
    keys.remove("quantity")
    return alone.pivot(index=keys, columns="quantity", values="value").reset_index()


def curves_of(table: Table, quantity: str) -> Table:
    """The values of a quantity that has an x: one row per x, one column per instance."""
    rows = table[(table.quantity == quantity) & table["x"].notna()]
    keys = [name for name in rows if name not in ("quantity", "x", "value")]
    return rows.drop_duplicates([*keys, "x"]).pivot(index="x", columns=keys, values="value")


# ---------------------------------------------------------------- sets


class ClosedSet:
    """The prefix-closed set without confused tokens of a seed, from TOKENS first tokens.

    Every sentence and every collocation counts once. W_ov, W_kq: both solutions, certified; facts:
    the largest gap, and whether the set meets Assumptions 1 and 3 of [huang2024nexttoken] and holds
    all its prefixes.
    """

    def __init__(self, seed: int, length: int = 4) -> None:
        lines = closed(TOKENS, length, TOKENS, seed)
        self.data = Sentences.of(lines, vocabulary=TOKENS)
        self.orders = orders(self.data)
        self.W_ov = decoder_best(self.data)
        self.W_kq = solve_attention(self.orders, np.eye(TOKENS))
        gap = max(float(self.W_ov.gap), self.W_kq.gap)
        self.facts = {"inside": inside(self.data, self.orders), "gap": gap}


def inside(sentences: Sentences, found: Mapping[int, Order]) -> bool:
    """Whether the set is realizable without confused tokens, and holds all its prefixes."""
    asked = realizability(sentences, found)
    return not asked.outside and asked.closed


def judged_sets(table: Table, more: str = "") -> tuple[Table, Premises]:
    """(the numbers of the sets inside, how many they are in words, and `more`)."""
    every = numbers_of(table)
    ok = every[every.inside == 1]
    return ok, premises(len(ok), len(every), float(np.max(every.gap.array)), more)


def premises(judged: int, total: int, gap: float, more: str) -> Premises:
    """How many sets are inside."""
    text = (
        f"{judged} of {total} random sets meet the premises (realizable, prefix-closed, no "
        "confused token, none more often than the optimal one, tokens orthonormal)"
    )
    return Premises(judged, text + more, gap)


# ---------------------------------------------------------------- runs


def starts(seed: int) -> dict[str, Floats]:
    """W_ov and W_kq of entries uniform between −0.1 and 0.1: the start of the published figure."""
    W_ov, W_kq = np.random.default_rng([seed, 1]).uniform(-0.1, 0.1, (2, TOKENS, TOKENS))
    return {"W_ov": W_ov, "W_kq": W_kq}


def doubled(stages: SentenceRun) -> Floats:
    """W_kq after the second stage is taken on to twice its updates."""
    path = train(
        stages.data, model="next-token", head=stages.W_ov, lr=stages.last.config["lr"],
        steps=int(stages.last.steps[-1]), init={"W_kq": stages.W_kq},
    )  # fmt: skip
    return np.asarray(path.weights["W_kq"][-1, 0])


# ---------------------------------------------------------------- along a run


def rises(data: Sentences, W_ov: Floats, W_kq: Floats) -> Floats:
    """L − L⋆ (R,) of the records W_kq (R, N, N) over the frozen decoder W_ov."""
    contexts = Contexts.of(data, np.eye(data.vocabulary))
    return np.array([excess(contexts, W_ov.T, W) for W in W_kq])


def decoder_best(data: Sentences) -> Certificate:
    """W_ov⋆ in closed form, certified: every margin has the multiplier 1/N."""
    E = np.eye(data.vocabulary)
    posed = decoder_problem(data, E)
    return certify(posed, "frobenius", solve_decoder(data, E).W, np.full(posed.m, 1.0 / len(E)))


def away(W: Floats, best: Certificate | Columns) -> Floats:
    """1 − cos (R,) of the records (R, …) after the start; nan without a certified solution."""
    return divergence(W, best, "2")


def decay(steps: Ints, above: Floats, late: int) -> tuple[float, float]:
    """(a, R²) of the fit of c e^(−a t) to the steps from `late` on; nan of what is not positive."""
    seen = steps >= late
    if not (above[seen] > 0).all():
        return np.nan, np.nan
    law = fit(steps[seen], above[seen], "exponential", tail=1.0)
    return float(law.exponent or 0.0), law.goodness

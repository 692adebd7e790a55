"""E: under a squared loss attention ends at the pseudo-graph of the tokens that it selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.priority_graphs import GraphLimit, draw, sentences_of
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, info
from attsvm.next_token.sentences import Sentences
from attsvm.problem.tokens import Tokens
from attsvm.training.heads import Head

# Sentences, their tokens, the vocabulary, the dimension: of the saved runs, and of the figures.
SIZES = {"saved runs": (6, 4, 6, 8), "figures": (4, 6, 8, 8)}
# Attention above the one is selected, below the other dropped.
SELECTED, DROPPED = 1e-2, 9e-3


@dataclass(frozen=True, eq=False)
class LabelShare(Head):
    """The softmax share of the label among e_k·f, of pooled outputs o = (f, the label's unit
    vector), for the embeddings E (B, K, d)."""

    E: Floats
    name = "label-share"

    def _shares(self, o: Floats) -> tuple[Floats, Floats]:
        """(the softmax over the vocabulary, the share of the label)."""
        d = self.E.shape[2]
        p = softmax(o[..., :d] @ np.swapaxes(self.E, 1, 2), axis=2)
        return p, (p * o[..., d:]).sum(axis=2)

    def value(self, o: Floats) -> Floats:
        """The share."""
        return self._shares(o)[1]

    def gradient(self, o: Floats) -> Floats:
        """Σ_k c_k ∇p_k in f, and p in the label's part c."""
        p, share = self._shares(o)
        toward = p * (o[..., self.E.shape[2] :] - share[..., None])
        return np.concatenate([toward @ self.E, p], axis=2)


def measure(group: Group, size: str, steps: int, lr: float) -> dict[str, Any]:
    """Correlation of the trained weight with the solutions of both graphs, certified."""
    n, T, K, d = SIZES[size]
    sets = [draw(seed, n, T, K, d, cyclic=True) for seed in group.seeds]
    tokens = []
    for E, words, labels in sets:
        own = np.broadcast_to(np.eye(K)[labels][:, None], (n, T, K))
        values = np.concatenate([E[words], own], axis=2)
        tokens.append(Tokens(values, keys=E[words], queries=E[words[:, -1]], labels=np.ones(n)))
    # The start of the released code.
    streams = [np.random.default_rng([seed, 7]) for seed in group.seeds]
    first = np.stack([rng.uniform(-1, 1, (d, d)) for rng in streams]) / np.sqrt(d)
    path = train(
        tokens, head=LabelShare(np.stack([E for E, _, _ in sets])), loss="squared", lr=lr,
        steps=steps, init={"W": first},
    )  # fmt: skip
    out: dict[str, list[Any]] = {}
    for (E, words, labels), W in zip(sets, path.weights["W"][-1], strict=True):
        s = softmax(np.einsum("ntd,de,ne->nt", E[words], W, E[words[:, -1]]), axis=1)
        local = GraphLimit(_pseudo(words, s > SELECTED, s < DROPPED, K), E)
        whole = GraphLimit(sentences_of(words, labels, K), E)
        found = {
            "local": local.found(W)["correlation"],
            "whole": whole.found(W)["correlation"],
            "gap": max((float(c.gap) for c in (local.best, whole.best) if c), default=0.0),
            "between": int(((s <= SELECTED) & (s >= DROPPED)).sum()),
            "cycle": not all(order.acyclic for order in local.orders.values()),
            "norm": float(np.linalg.norm(W)),
        }  # fmt: skip
        for name, value in found.items():
            out.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in out.items()}


def _pseudo(words: Ints, selected: Bools, dropped: Bools, K: int) -> Sentences:
    """One sentence for each selected token, as its label, of the tokens selected or dropped; the
    query stays last, and stands for no key where it is neither."""
    lines = []
    for line, kept, off in zip(words, selected, dropped, strict=True):
        there = [int(w) for w in line[:-1][(kept | off)[:-1]]]
        for y in line[kept]:
            lines.append([*there, int(line[-1]), int(y)])
    return Sentences.of(lines, vocabulary=K, collocations="copy")


def checks(table: Table, thresholds: Any) -> Checks:
    """Correlations with both solutions; the nearer one, run by run."""
    ok = table[table.local.notna() & table.whole.notna()]
    yield at_least("median correlation with the pseudo-graph's solution", ok.local.median(), 0.99)
    yield at_most("median correlation with the data's graph's solution", ok.whole.median(), 0.9)
    yield at_least("runs nearer to the pseudo-graph's, share", (ok.local > ok.whole).mean(), 0.95)
    yield info("least correlation with the pseudo-graph's", ok.local.min())
    yield info("runs whose selected tokens make a cycle, share", ok.cycle.mean())
    yield info("tokens neither selected nor dropped, over all runs", ok.between.sum())
    yield Premises(len(ok), f"{len(ok)} of {len(table)} runs with a solution of both graphs that "
                   "is not 0; embeddings independent, labels in every sentence")  # fmt: skip


STUDY = Study(
    id="E.graph-local",
    title="Priority graphs: what is selected under a squared loss",
    kind="figure",
    source="code",
    statement="Figures 6 and 7 of Li et al. 2024. With the squared loss of the label's softmax "
    "share and the general head c_k = e_k, normalized descent does not select the label "
    "everywhere; its direction is that of the graph problem of the tokens it selects (attention "
    "above 0.01), and not that of the data's graph: the correlations of saved runs are 0.992 to "
    "0.9995, and 0.26 to 0.95.",
    grid={"size": list(SIZES)},
    run={"steps": 2000, "lr": 0.1},
    seeds=100,
    group=25,
    measure=measure,
    checks=checks,
    gap=1e-7,
    quick={"seeds": 20},
    figure={
        "kind": "scatter",
        "x": "whole",
        "y": "local",
        "lines": "size",
        "diagonal": True,
        "xlabel": "correlation with the solution of the data's graph",
        "ylabel": "with that of the selected tokens' graph",
    },
    reference="li2024mechanics",
    theorem="Li et al. 2024, Figures 6 and 7",
    size="as published, the squared loss alone",
)

"""D: the constants of the printed bounds, for several vocabularies and lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.datasets.sentences import closed
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, info
from attsvm.next_token.order import orders
from attsvm.next_token.problems import Columns, solve_attention
from attsvm.next_token.sentences import Sentences

CONSTANTS = (5, 12)


def measure(group: Group, vocabulary: int, length: int, steps: int, frozen: int) -> dict[str, Any]:
    """The largest share of each printed bound that a run uses, over the records from t = 2 on."""
    rows = []
    lr, eta = (float(rate / np.sqrt(vocabulary)) for rate in (0.2, 0.05))
    for seed in group.seeds:
        lines = closed(vocabulary, length, vocabulary, seed)
        sentences = Sentences.of(lines, vocabulary=vocabulary)
        every = orders(sentences)
        first, second = shared.decoder_best(sentences), solve_attention(every, np.eye(vocabulary))
        longest = float(sentences.lengths.max())
        path = train(sentences, model="decoder", lr=lr, steps=steps)
        t, W = path.steps[path.steps >= 2], path.weights["W_ov"][path.steps >= 2, 0]
        bound = first.lower**3 * np.log(2 * vocabulary) / lr * np.log(t) / t
        row = {
            "inside": shared.inside(sentences, every),
            "longest": longest,
            "gap": max(float(first.gap), second.gap),
            **{f"direction_{c}": (shared.away(W, first) / (c * bound)).max() for c in CONSTANTS},
            "pace_ov": _pace(W, t, lr, first),
        }
        short = train(sentences, model="decoder", lr=lr, steps=frozen)
        path = train(sentences, model="next-token", head=short, lr=eta, steps=steps)
        t, W = path.steps[path.steps >= 2], path.weights["W_kq"][path.steps >= 2, 0]
        bound = sentences.size * longest**4 * second.lower**4 / eta * np.log(t) ** 2 / t
        rows.append(row | {
            "direction_kq": (shared.away(W, second) / (54 * bound)).max(),
            "without_length": (shared.away(W, second) * longest**4 / (54 * bound)).max(),
            "pace_kq": _pace(W, t, eta, second),
        })  # fmt: skip
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _pace(W: Floats, t: Ints, lr: float, best: Certificate | Columns) -> float:
    """The least ‖W(t)‖ over tη/(2‖W⋆‖)."""
    return float((np.linalg.norm(W, axis=(1, 2)) / (t * lr) * 2 * best.lower).min())


def checks(table: Table, thresholds: Any) -> Checks:
    """Every printed form at every record: above 1 a bound is broken, below it holds."""
    ok = table[table.inside]
    for c in CONSTANTS:
        yield at_most(f"W_ov: largest (1 − cos) over {c} ‖W_ov⋆‖³ log(2|V|) log t/(tη₀)",
                      ok[f"direction_{c}"].max(), 1.0)  # fmt: skip
    yield at_most("W_kq: largest (1 − cos) over 54 N L_max⁴‖W_kq⋆‖⁴ log² t/(tη)",
                  ok.direction_kq.max(), 1.0)  # fmt: skip
    yield at_most("W_kq: the same without L_max⁴", ok.without_length.max(), 1.0)
    yield at_least("W_ov: least ‖W_ov‖ over tη₀/(2‖W_ov⋆‖)", ok.pace_ov.min(), 1.0)
    yield at_least("W_kq: least ‖W_kq‖ over tη/(2 L_max‖W_kq⋆‖), as proved",
                   (ok.pace_kq * ok.longest).min(), 1.0)  # fmt: skip
    yield at_least("W_kq: the same without L_max, as printed", ok.pace_kq.min(), 1.0)
    yield info("W_kq: least pace over the printed one, median over sets", ok.pace_kq.median())
    yield Premises(
        len(ok), f"{len(ok)} of {len(table)} sets meet the premises (realizable, prefix-closed, no "
        "confused token, none more often than the optimal one, tokens orthonormal)",
    )  # fmt: skip


STUDY = Study(
    id="D.printed-bounds",
    title="The printed bounds, constants and all",
    kind="theorem",
    source="paper",
    statement="v2, Proposition 1 and Theorem 1, for several vocabularies and lengths: for t ≥ 2 "
    "and from 0, 1 − cos of W_ov is at most 5 (in the appendix 12) times "
    "‖W_ov⋆‖³ log(2|V|) log t/(tη₀), that of W_kq at most 54 N L_max⁴‖W_kq⋆‖⁴ log² t/(tη), and the "
    "norms grow at least like tη₀/(2‖W_ov⋆‖) and tη/(2‖W_kq⋆‖), the last proved with a further "
    "factor 1/L_max.",
    grid={"vocabulary": [6, 10, 20], "length": [3, 4, 6]},
    run={"steps": 6000, "frozen": 2000},
    seeds=10,
    group=5,
    measure=measure,
    checks=checks,
    gap=1e-8,
    quick={"seeds": 2, "run": {"steps": 1500}},
    figure={
        "kind": "scatter",
        "x": "direction_kq",
        "y": "pace_kq",
        "lines": "vocabulary",
        "log": "x",
        "xlabel": "share of the bound on 1 − cos of W_kq that is used",
        "ylabel": "pace of ‖W_kq‖ over the printed one",
    },
    theorem="v2, Proposition 1, Theorem 1 and the appendix",
)

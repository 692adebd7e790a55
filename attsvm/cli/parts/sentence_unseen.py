"""What a trained model answers on sentences it never saw, for the report of `train`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attsvm.next_token.order import Order
from attsvm.next_token.problems import Columns
from attsvm.next_token.training.outcome import SentenceRun
from attsvm.next_token.unseen import (
    agreement,
    answer_unseen,
    draw_unseen,
    logit_accuracy,
    predict_unseen,
)


def unseen_report(
    run: SentenceRun, every: Mapping[int, Order], best: Columns, count: int, seed: int
) -> dict[str, Any]:
    """How the answers on `count` random unseen sentences agree with the solution's.

    Sentences have the lengths and the queries of the data; a wide gap is one of 0.25 or more.
    """
    data, ends = run.data, run.ends
    lengths = int(data.lengths.min()), int(data.lengths.max())
    words = draw_unseen(data, count, length=lengths, seed=seed)
    asked = predict_unseen(
        words, best.W, run.E, data.follows, accuracy=logit_accuracy(every, best, run.E)
    )
    found = agreement(
        asked, answer_unseen(words, ends["W_ov"], ends["W_kq"], run.E), names=data.names
    )
    return {
        "sentences": found.total,
        "ties": found.ties,
        "gap": found.threshold,
        "wide": found.judged,
        "agreed": found.agreed,
        "attended": found.attended,
        "first_ties": list(found.first_ties),
        "bins": [
            {"from": low, "to": high, "sentences": n, "agreed": agreed}
            for low, high, n, agreed in zip(
                found.edges[:-1].tolist(),
                found.edges[1:].tolist(),
                found.counts.tolist(),
                found.agreed_in.tolist(),
                strict=True,
            )
        ],
    }

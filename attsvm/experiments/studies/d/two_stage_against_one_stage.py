"""D: what two stages gain over both matrices at once, for the same number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from attsvm._utils.arrays import Ints
from attsvm.api import train
from attsvm.experiments.group import Group, Parts
from attsvm.experiments.studies.shared import sentence_runs as shared
from attsvm.experiments.study import Checks, Note, Study, Table, at_least, at_most
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.unseen import agreement, answer_unseen, predict_unseen

TWO = "two stages"
# What one stage descends on, and whether the collocations' loss is added.
LOSSES = {"L": False, "L₀ + L": True}


def measure(group: Group, way: str, tried: float, steps: Sequence[int]) -> Parts:
    """The end of both stages, or of one stage of as many steps as both together, all from zero.

    tried: the step size times √N of attention, or of both matrices at once. W_kq, W_ov: 1 − cos;
    unseen: the share of unseen sentences on which the model says the follower of the token that
    W_kq⋆ puts first, of those in which it is first by 0.25 or more; sentences: their number.
    """
    rows: list[dict[str, Any]] = []
    first, lr = shared.LR[0], float(tried / np.sqrt(shared.TOKENS))
    for seed in group.seeds:
        one = shared.ClosedSet(seed)
        data = one.data
        if way == TWO:
            head = train(data, model="decoder", lr=first, steps=steps[0])
            path = train(data, model="next-token", head=head, lr=lr, steps=steps[1])
            W_ov = head.weights["W_ov"][-1, 0]
        else:
            path = train(data, model="joint-next-token", collocations=LOSSES[way], lr=lr,
                         steps=sum(steps))  # fmt: skip
            W_ov = path.weights["W_ov"][-1, 0]
        W_kq = path.weights["W_kq"][-1, 0]
        asked = predict_unseen(unseen(data), one.W_kq.W, np.eye(shared.TOKENS), data.follows)
        answered = answer_unseen(asked.words, W_ov, W_kq, np.eye(shared.TOKENS))
        agreed = agreement(asked, answered, threshold=0.25)
        rows.append({
            "seed": seed,
            **one.facts,
            "W_kq": shared.away(W_kq[None], one.W_kq)[0],
            "W_ov": shared.away(W_ov[None], one.W_ov)[0],
            "unseen": agreed.agreed / agreed.judged,
            "sentences": agreed.judged,
        })  # fmt: skip
    return rows


def unseen(data: Sentences) -> Ints:
    """Every set of three different tokens with one of them the query, last, but for those that
    make up a sentence of the data (M, 3)."""
    N = data.vocabulary
    tokens, _ = data.distinct
    known = {
        (frozenset(row[row >= 0].tolist()), int(q))
        for row, q in zip(tokens, data.queries, strict=True)
    }
    rows = [
        (a, b, q)
        for q in range(N)
        for a, b in combinations(sorted({*range(N)} - {q}), 2)
        if (frozenset((a, b, q)), q) not in known
    ]
    return np.array(rows)


def _nearest(table: Table) -> dict[str, Table]:
    """Of each way, by seed inside the premises, the run of the step size that ends nearest to
    W_kq⋆."""
    ok = table[table.inside]
    best = ok.loc[ok.groupby(["way", "seed"], sort=False).W_kq.idxmin()]
    return {str(way): runs.set_index("seed") for way, runs in best.groupby("way", sort=False)}


def checks(table: Table, thresholds: Any) -> Checks:
    """Two stages end nearer to both solutions in every set, and agree at least as often."""
    ends, total = _nearest(table), table.seed.nunique()
    gap = float(np.max(table.gap.array))
    if not ends:
        yield shared.premises(0, total, gap, "")
        return
    two = ends[TWO]
    for loss in LOSSES:
        for name in ("W_kq", "W_ov"):
            what = f"one stage on {loss}: largest 1 − cos of {name} in two stages over that in one"
            yield at_most(what, np.max((two[name] / ends[loss][name]).array), 1.0)
        what = f"one stage on {loss}: least lead of two stages on unseen sentences"
        yield at_least(what, np.min((two.unseen - ends[loss].unseen).array), 0.0)
    more = f"; {int(two.sentences.sum())} unseen sentences of three tokens with a gap of 0.25"
    yield shared.premises(len(two), total, gap, more)
    if any((ends[loss][name] < two[name]).any() for loss in LOSSES for name in ("W_kq", "W_ov")):
        yield Note(
            "one stage ends nearer in some sets: each of its steps moves both matrices, where two "
            "stages share as many steps between them; on L alone W_ov does not learn the "
            "collocations that no sentence turns on"
        )


STUDY = Study(
    id="D.two-stage-against-one-stage",
    title="Two stages against one",
    kind="question",
    source="measured",
    statement="A question of ours about v2, Algorithm 1, inside the paper's premises: for the same "
    "number of normalized steps, does the decoder first and attention over it end nearer in "
    "direction to both max-margin solutions than both matrices at once, and predict unseen "
    "sentences at least as often as the solution does? The paper has no such comparison.",
    grid={"way": [TWO, *LOSSES], "tried": [0.05, 0.2]},
    run={"steps": [1000, 3000]},
    seeds=3,
    first=31,
    measure=measure,
    checks=checks,
    gap=1e-8,
    quick={"seeds": 1, "run": {"steps": [300, 900]}},
    figure={
        "kind": "curves",
        "x": "way",
        "value": {"W_kq": "direction of W_kq", "W_ov": "direction of W_ov"},
        "apart": True,
        "lines": "tried",
        "log": "y",
        "xlabel": "two stages, or one stage on a loss; tried: step size times √N",
        "ylabel": "1 − correlation with the solution",
    },
)

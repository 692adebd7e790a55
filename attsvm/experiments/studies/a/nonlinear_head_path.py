"""A: with interchangeable good tokens, the path picks one of each set and lets the others go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.experiments.group import Group, Parts, cosine
from attsvm.experiments.studies.shared.prompt_paths import least_cosine, sure_margins, unsettled
from attsvm.experiments.study import Checks, Premises, Study, Table, at_most, equals
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.solvers.solve_sets import solve_sets
from attsvm.theory.regularization_path.ball import BallTask
from attsvm.theory.regularization_path.excess import Excess, Signed
from attsvm.training.heads import Relu
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch

# Below this ratio of the second least norm of the union's pieces to the least, or above this
# cosine of the two candidate directions, an instance does not tell them apart.
_RATIO, _ALIKE = 1.01, 0.99


@dataclass(frozen=True, eq=False)
class SetInstance:
    """Tokens whose kept sets share their value, the head, and the sets.

    All labels are +1 and h is convex, so h(o) ≤ h(g) − Σ_t s_t (h(g) − h(x_t)) with g the kept
    value: attention off the sets costs loss, wherever it goes.
    """

    tokens: Tokens
    head: Relu
    sets: Selection


def draw(
    seed: int, n: int = 3, T: int = 5, d: int = 8, e: int = 3, units: int = 4, kept: int = 2
) -> SetInstance:
    """Random keys and values; the value of highest h is given to the first `kept` tokens."""
    stream = np.random.default_rng(seed)
    V = stream.standard_normal((1, e, units))
    head = Relu(V / np.linalg.norm(V))
    keys, X = stream.standard_normal((n, T, d)), stream.standard_normal((n, T, e))
    best = head.value(X).argmax(axis=1)
    in_set = np.zeros((n, T), dtype=bool)
    in_set[:, :kept] = True
    good = X[np.arange(n), best].copy()
    X[np.arange(n), best] = X[:, 0]
    X[in_set] = np.repeat(good, kept, axis=0)
    tokens = Tokens(X, keys=keys, labels=np.ones(n))
    return SetInstance(tokens, head, Selection.of(tokens, in_set))


def pieces(instance: SetInstance) -> list[Problem]:
    """The convex problems of the union, one for each choice of winners."""
    members = [np.flatnonzero(row) for row in instance.sets.kept]
    return [Problem.any_of(instance.tokens, instance.sets, w) for w in product(*members)]


@dataclass(frozen=True, eq=False)
class SetExcess(Excess):
    """The loss above that of the kept values, for the logistic loss and a ReLU head.

    signs, logs (n, T): h(g_i) − h(x_it), 0 on the sets. units (n, T, j): V_j·(g_i − x_it); own
    (n, j): V_j·g_i. h(g) − h(o) is summed over the units from the change e^m c of each, m the
    largest log attention off the set, so that it keeps its digits.
    """

    units: Floats
    own: Floats
    kept: Bools

    @classmethod
    def of(cls, instance: SetInstance) -> SetExcess:
        """The excess over the kept sets of an instance."""
        X, V = np.asarray(instance.tokens.X), instance.head.V[0]
        kept: Bools = instance.sets.kept
        good = X[np.arange(len(X)), kept.argmax(axis=1)]
        scores = np.maximum(good @ V, 0.0).sum(axis=1)
        loss = loss_of("logistic")
        gaps = scores[:, None] - instance.head.value(X[None])[0]
        logs = np.log(gaps, out=np.full(gaps.shape, -np.inf), where=~kept & (gaps > 0))
        floor = float(loss.value(scores).mean())
        return cls(
            loss,
            np.where(kept, 0.0, np.sign(gaps)),
            logs,
            scores,
            floor,
            (good[:, None] - X) @ V,
            good @ V,
            kept,
        )

    def __call__(self, attention: Floats) -> Signed:
        """L − floor at log attention (n, T): ℓ(γ − δ) − ℓ(γ) = log(1 + (e^δ − 1)/(1 + e^γ))."""
        off = np.where(self.kept, -np.inf, attention)
        top = off.max(axis=1)
        change = np.einsum("nt,ntj->nj", np.exp(off - top[:, None]), self.units)
        with np.errstate(divide="ignore"):
            reach = np.exp(np.minimum(np.log(np.abs(self.own)) - top[:, None], 700.0))
        # max(0, a) − max(0, a − e^m c), over e^m, with a = ±e^m reach.
        fall = np.where(self.own > 0, np.minimum(change, reach), np.minimum(change + reach, 0.0))
        log = top + np.log(fall.sum(axis=1))
        short = log - np.logaddexp(0.0, self.scores)
        delta = np.exp(np.maximum(log, -30.0))
        long = np.log(np.log1p(np.expm1(delta) / (1 + np.exp(self.scores))))
        sizes = np.where(log < -20.0, short, long)
        return Signed(1, float(np.logaddexp.reduce(sizes) - np.log(len(sizes))))


def task(instance: SetInstance) -> BallTask:
    """The minimisation of the logistic loss over prompts."""
    return BallTask(
        Batch.of(instance.tokens),
        model_of("prompt"),
        norm_of("frobenius"),
        loss_of("logistic"),
        instance.head,
        1,
        SetExcess.of(instance),
    )


def measure(group: Group, starts: int, factors: Sequence[float]) -> Parts:
    """A row for each instance and radius, factor times the least norm of the union."""
    parts = [_measured(seed, draw(seed), starts, np.array(factors)) for seed in group.seeds]
    return parts


def _measured(seed: int, instance: SetInstance, starts: int, factors: Floats) -> dict[str, Any]:
    """The rows of one instance.

    costly: attention off the sets costs loss; ratio: the second least norm of the union's pieces
    over the least, 0 where a piece is not settled; inside: an instance that is judged; agreed:
    whether the winners are those of the least piece; away, tied: 1 − cosine to the least piece, and
    cosine to the tied solution; above: log loss less that on the ray.
    """
    own = solve_many(pieces(instance))
    union = solve_sets(instance.tokens, instance.sets)
    ties = solve(Problem.of(instance.tokens, instance.sets))
    work, stream = task(instance), np.random.default_rng([seed, 1])
    begin = [c.W for c in [*own, ties] if c.W is not None]
    begin += [work.random(stream) for _ in range(starts)]
    p = _least(work, begin, factors * union.certificate.upper)
    upper = np.array([np.inf if c.W is None else c.upper for c in own])
    best = int(upper.argmin())
    rest = [np.inf if c.W is None else c.lower for j, c in enumerate(own) if j != best]
    open_ones = sum(map(unsettled, [*own, ties]))
    ratio = min(rest) / upper[best] if not open_ones and ties.W is not None else 0.0
    target, excess = own[best], work.excess
    costly = excess is not None and bool((excess.signs[~instance.sets.kept] > 0).all())
    apart = ratio >= _RATIO and ties.W is not None and cosine(ties.W, target) <= _ALIKE
    members = [np.flatnonzero(row) for row in instance.sets.kept]
    winners = list(product(*members))[best]
    radii = factors * target.upper
    ray = np.asarray(target.W) / target.upper
    logs = np.array([work.log_excess(x[:, None]) for x in p])
    known = np.array([work.log_excess(R * ray) for R in radii])
    unsure = np.full(len(p), np.inf)
    if costly and excess is not None and ratio > 0:
        delta = sure_margins(excess, known, len(members[0]))
        sure = least_cosine(delta, radii, target.lower)
        # In any other piece such a p would be shorter than the least norm there.
        unsure = np.where(delta * target.upper > radii / ratio, 1 - sure, np.inf)
    return {
        "seed": seed,
        "costly": costly,
        "ratio": float(ratio),
        "inside": costly and apart,
        "agreed": bool((np.array(winners) == union.winners).all()),
        "unsettled": open_ones,
        "gap": max(float(c.gap) for c in [*own, ties] if c.W is not None),
        "factor": factors,
        "away": np.array([1 - cosine(x[:, None], target) for x in p]),
        "tied": np.array([cosine(x[:, None], ties) for x in p]),
        "log_excess": logs,
        "above": logs - known,
        "still": np.array([work.residual(x[:, None])[0] for x in p]),
        "unsure": unsure,
    }


def _least(work: BallTask, starts: list[Floats], radii: Floats) -> Floats:
    """The prompts p (R, d) of least loss, each from all starts and from the one before."""
    p, last = [], list[Floats]()
    for R in radii:
        ends = [work.least(x, float(R)) for x in [*starts, *last]]
        last = [min(ends, key=lambda x: work(x)[0])]
        p.append(last[0][:, 0])
    return np.stack(p)


def checks(table: Table, thresholds: Any) -> Checks:
    """Directions, losses and stationarity at every radius."""
    rows = table[table.inside].set_index("seed")
    last = rows[rows.factor == table.factor.max()]
    first = rows.away[rows.factor == table.factor[table.factor >= 1].min()]
    yield equals(
        "instances whose winners are those of the least piece", last.agreed.sum(), len(last)
    )
    yield at_most("1 − cosine to the union's solution, last radius", last.away.max(), 1e-3)
    yield at_most("1 − cosine at the last radius, over that at R = ‖p^mm‖",
                  (last.away / first.clip(lower=1e-300)).max(), 0.01)  # fmt: skip
    yield at_most("cosine to the tied solution less that to the union's, last radius",
                  (last.tied - 1 + last.away).max(), -0.01)  # fmt: skip
    yield at_most("log of the loss above its floor, last radius", last.log_excess.max(), -20.0)
    yield at_most("1 − cosine of p and −∇L, all radii", rows.still.max(), 1e-6)
    yield at_most("log loss above that of R p^mm/‖p^mm‖", rows.above.max(), 1e-9)
    yield at_most("1 − cosine that any p as good as R p^mm/‖p^mm‖ can have, last radius",
                  last.unsure.max(), 1e-3)  # fmt: skip
    once = table.drop_duplicates("seed")
    yield equals("problems neither solved nor proved infeasible", once.unsettled.sum(), 0)
    gap = float(last.gap.max()) if len(last) else 0.0
    yield Premises(
        len(last),
        f"attention off the sets costs loss in {once.costly.sum()} of {len(once)} random "
        f"instances; in {len(last)} the union has one least piece, apart from the tied solution",
        gap,
    )


STUDY = Study(
    id="A.nonlinear-head-path",
    title="Interchangeable tokens under a nonlinear head",
    kind="theorem",
    source="from memory",
    statement="When each input has a set of good tokens and attention off the sets costs loss, the "
    "prompt of least loss with ‖p‖ ≤ R approaches, as R grows, the shortest prompt for which some "
    "token of each set beats every token off it. Tested with sets that share their value under a "
    "ReLU head: tokens of one set need not tie, and do not.",
    run={
        "starts": 4,
        "factors": [0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 10_000.0, 100_000.0],
    },
    seeds=20,
    group=4,
    measure=measure,
    checks=checks,
    gap=1e-9,
    quick={"seeds": 4, "run": {"starts": 1, "factors": [1.0, 10.0, 100.0, 100_000.0]}},
    figure={
        "kind": "curves",
        "where": lambda t: t.ratio >= _RATIO,
        "x": "factor",
        "value": {"away": "the union's solution", "1 - tied": "ties inside the sets"},
        "band": "half",
        "log": "xy",
        "level": 1e-3,
        "xlabel": "R / ‖p^mm‖",
        "ylabel": "1 − cosine to the certified direction (median, middle half)",
    },
)

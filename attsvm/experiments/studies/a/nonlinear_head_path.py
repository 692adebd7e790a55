"""A: with interchangeable good tokens, the path picks one of each set and lets the others go."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import Claim, Config, Finding, Result, at_most, equals
from attsvm.experiments.studies.shared.prompt_paths import least_cosine, sure_margins, unsettled
from attsvm.experiments.studies.shared.proof import cosine, recertified, saved_solutions, worst_gap
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The largest over the judged instances of each of these is held against its threshold.
_WORST = {
    "away": ("1 − cosine to the union's solution, last radius", 1e-3),
    "left": ("1 − cosine at the last radius, over that at R = ‖p^mm‖", 0.01),
    "tied": ("cosine to the tied solution less that to the union's, last radius", -0.01),
    "loss": ("log of the loss above its floor, last radius", -20.0),
    "still": ("1 − cosine of p and −∇L, all radii", 1e-6),
    "above": ("log loss above that of R p^mm/‖p^mm‖", 1e-9),
    "unsure": ("1 − cosine that any p as good as R p^mm/‖p^mm‖ can have, last radius", 1e-3),
}
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


def draw(config: Config, seed: int) -> SetInstance:
    """Random keys and values; the value of highest h is given to the first `kept` tokens."""
    n, T, d, e = (int(config[name]) for name in ("n", "T", "d", "e"))
    size = int(config["kept"])
    stream = np.random.default_rng(seed)
    V = stream.standard_normal((1, e, int(config["units"])))
    head = Relu(V / np.linalg.norm(V))
    keys, X = stream.standard_normal((n, T, d)), stream.standard_normal((n, T, e))
    best = head.value(X).argmax(axis=1)
    kept = np.zeros((n, T), dtype=bool)
    kept[:, :size] = True
    good = X[np.arange(n), best].copy()
    X[np.arange(n), best] = X[:, 0]
    X[kept] = np.repeat(good, size, axis=0)
    tokens = Tokens(X, keys=keys, labels=np.ones(n))
    return SetInstance(tokens, head, Selection.of(tokens, kept))


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


def run(config: Config) -> Result:
    """The least loss at every radius, from every piece of the union, the ties and at random."""
    parts, tied, winners, prompts = [], [], [], []
    factors = np.array(config["factors"])
    for seed in config["seeds"]:
        instance = draw(config, seed)
        found = solve_many(pieces(instance))
        union = solve_sets(instance.tokens, instance.sets)
        ties = solve(Problem.of(instance.tokens, instance.sets))
        work = task(instance)
        stream = np.random.default_rng([seed, 1])
        starts = [c.W for c in [*found, ties] if c.W is not None]
        starts += [work.random(stream) for _ in range(config["starts"])]
        parts += found
        tied.append(ties)
        winners.append(union.winners)
        prompts.append(_least(work, starts, factors * union.certificate.upper))
    return {
        "p": np.stack(prompts),
        "winners": np.stack(winners),
        **saved_solutions("pieces", parts),
        **saved_solutions("tied", tied),
    }


def _least(work: BallTask, starts: list[Floats], radii: Floats) -> Floats:
    """The prompts p (R, d) of least loss, each from all starts and from the one before."""
    p, last = [], list[Floats]()
    for R in radii:
        ends = [work.least(x, float(R)) for x in [*starts, *last]]
        last = [min(ends, key=lambda x: work(x)[0])]
        p.append(last[0][:, 0])
    return np.stack(p)


def _certified(
    config: Config, result: Result
) -> list[tuple[list[Certificate], Certificate, int, float]]:
    """For each seed: the pieces, the tied one, the best piece, and the second least norm over
    the least (0 where a piece is neither solved nor proved infeasible, or the ties are not)."""
    drawn = [draw(config, seed) for seed in config["seeds"]]
    lists = [pieces(instance) for instance in drawn]
    found = recertified("pieces", [p for part in lists for p in part], "frobenius", result)
    tied = recertified("tied", [Problem.of(i.tokens, i.sets) for i in drawn], "frobenius", result)
    out = []
    for k, part in enumerate(lists):
        own = found[k * len(part) : (k + 1) * len(part)]
        done = not unsettled([*own, tied[k]])
        upper = np.array([np.inf if c.W is None else c.upper for c in own])
        best = int(upper.argmin())
        rest = [np.inf if c.W is None else c.lower for j, c in enumerate(own) if j != best]
        ratio = min(rest) / upper[best] if done and tied[k].W is not None else 0.0
        out.append((own, tied[k], best, float(ratio)))
    return out


def check(config: Config, result: Result) -> Finding:
    """Directions, losses and stationarity at every radius, from the prompts alone."""
    factors = np.array(config["factors"])
    rows: dict[str, list[float]] = {name: [] for name in _WORST}
    gaps = [0.0]
    agreed = inside = costly = unknown = 0
    for k, (own, tied, best, ratio) in enumerate(_certified(config, result)):
        unknown += unsettled([*own, tied])
        instance = draw(config, config["seeds"][k])
        work = task(instance)
        excess = work.excess
        if excess is None or not (excess.signs[~instance.sets.kept] > 0).all():
            continue
        costly += 1
        target, p = own[best], result["p"][k]
        if ratio < _RATIO or tied.W is None or cosine(tied.W, target) > _ALIKE:
            continue
        inside += 1
        gaps.append(worst_gap([tied, *(c for c in own if c.W is not None)]))
        members = [np.flatnonzero(row) for row in instance.sets.kept]
        places = np.unravel_index(best, [len(m) for m in members])
        agreed += int(
            all(m[a] == w for m, a, w in zip(members, places, result["winners"][k], strict=True))
        )
        radii = factors * target.upper
        ray = np.asarray(target.W) / target.upper
        known = np.array([work.log_excess(R * ray) for R in radii])
        logs = np.array([work.log_excess(x[:, None]) for x in p])
        away = [1 - cosine(x[:, None], target) for x in p]
        delta = sure_margins(excess, known, int(config["kept"]))
        sure = least_cosine(delta, radii, target.lower)[-1]
        # In any other piece such a p would be shorter than the least norm there.
        alone = delta[-1] * target.upper * ratio > radii[-1]
        rows["away"].append(away[-1])
        rows["left"].append(away[-1] / max(away[int(np.argmax(factors >= 1))], 1e-300))
        rows["tied"].append(cosine(p[-1][:, None], tied) - 1 + away[-1])
        rows["loss"].append(float(logs[-1]))
        rows["still"].append(float(np.max([work.residual(x[:, None])[0] for x in p])))
        rows["above"].append(float((logs - known).max()))
        rows["unsure"].append(1 - float(sure) if alone else np.inf)
    tests = [
        equals("instances whose winners are those of the least piece", agreed, inside),
        *(
            at_most(what, float(np.max(rows[name] or [np.nan])), threshold)
            for name, (what, threshold) in _WORST.items()
        ),
        equals("problems neither solved nor proved infeasible", unknown, 0),
        at_most("largest certified gap", max(gaps), 1e-9),
    ]
    premises = (
        f"attention off the sets costs loss in {costly} of {len(config['seeds'])} random "
        f"instances; in {inside} of them the union has one least piece, and ties inside the sets "
        "have a solution of another direction"
    )
    return Finding(tuple(tests), premises, inside, max(gaps))


def plot(config: Config, result: Result) -> Figure:
    """1 − cosine to both candidates over the radius, and how attention divides a set."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, level, panels

    figure, (left, right) = panels(2)
    factors = config["factors"]
    away: dict[str, list[list[float]]] = {"the union's solution": [], "ties inside the sets": []}
    share = []
    for k, (own, tied, best, ratio) in enumerate(_certified(config, result)):
        if ratio < _RATIO or tied.W is None:
            continue
        instance, p = draw(config, config["seeds"][k]), result["p"][k]
        for name, target in zip(away, (own[best], tied), strict=True):
            away[name].append([1 - cosine(x[:, None], target) for x in p])
        logits = np.einsum("ntd,rd->rnt", np.asarray(instance.tokens.keys), p)
        inside = np.where(instance.sets.kept, logits, -np.inf)
        top = inside.max(axis=2, keepdims=True)
        share.append((1 / np.exp(inside - top).sum(axis=2)).mean(axis=1))
    for j, (name, rows) in enumerate(away.items()):
        band(left, factors, np.array(rows).T, colour=CYCLE[j], label=name)
    band(right, factors, np.array(share).T, colour=CYCLE[0], label="found")
    level(left, 1e-3, "asked at the last radius: 1e-3")
    right.axhline(
        1 / config["kept"],
        color=CYCLE[1],
        linestyle="--",
        linewidth=1.2,
        label="if the logits of a set tied",
    )
    left.set(
        xscale="log",
        yscale="log",
        xlabel="R / ‖p^mm‖",
        title="Direction",
        ylabel="1 − cosine to the certified direction",
    )
    right.set(
        xscale="log",
        xlabel="R / ‖p^mm‖",
        ylim=(0, 1.03),
        title="Attention inside the sets",
        ylabel="share of the leading token of a set, mean",
    )
    left.legend(frameon=False, loc="lower left", title="median, middle half")
    right.legend(frameon=False, loc="lower right")
    return figure


_FULL = {
    "n": 3,
    "T": 5,
    "d": 8,
    "e": 3,
    "units": 4,
    "kept": 2,
    "seeds": list(range(20)),
    "starts": 4,
    "factors": [0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 10_000.0, 100_000.0],
}

CLAIM = Claim(
    id="A.nonlinear-head-path",
    title="Interchangeable tokens under a nonlinear head",
    kind="theorem",
    trust="as recalled",
    statement="When each input has a set of good tokens and attention off the sets costs loss, the "
    "prompt of least loss with ‖p‖ ≤ R approaches, as R grows, the shortest prompt for which some "
    "token of each set beats every token off it. Tested with sets that share their value under a "
    "ReLU head: tokens of one set need not tie, and do not.",
    full=_FULL,
    quick={**_FULL, "seeds": [0, 1, 2, 3], "starts": 1, "factors": [1.0, 10.0, 100.0, 100_000.0]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
)

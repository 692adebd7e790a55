"""A: the prompt of least loss, in a growing ball and under a vanishing penalty.

With one best token in each input it turns into the max-margin prompt; with interchangeable good
tokens it picks one of each set and lets the others go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, cosine, cosines, evaluate_at, selected_by
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
from attsvm.theory.regularization_path.paths import RegPath, regpath
from attsvm.training.heads import Relu
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch

_MEASURED = ("right", "away", "log_excess", "still", "outside", "above", "unsure")


def unsettled(certificate: Certificate) -> bool:
    """Whether a problem is neither solved nor proved infeasible."""
    return not _solved(certificate) and certificate.proof != "exact"


def _solved(certificate: Certificate) -> bool:
    return certificate.W is not None and float(certificate.gap) <= 1e-9


def above(tokens: Tokens, v: Floats, loss: str, p: Floats) -> tuple[Excess, Floats]:
    """The excess over the best tokens, and its log at prompts p (R, d)."""
    excess = Excess.over(tokens, Selection.best(tokens, v).indices, v, loss_of(loss))
    found = evaluate_at(tokens, v, p, model="prompt", loss=loss)
    return excess, np.array([excess(logs).log for logs in found.logs])


def sure_margins(excess: Excess, log_loss: Floats, members: int = 1) -> Floats:
    """δ (R,), below all margins of the leading good token of every p whose loss is this low.

    excess: over the good tokens, `members` in each input; log_loss (R,): log of the loss above its
    floor. The loss is convex, so n e^log_loss ≥ |ℓ'(γ)| s_t (γ − γ_t) bounds the attention s_t of
    every other token, and one of the good ones has its share of the rest. −inf where this says
    nothing.
    """
    slope = excess.loss.slope(excess.scores)[1][:, None]
    rivals = excess.signs > 0
    out = np.full(len(log_loss), -np.inf)
    for k, log in enumerate(log_loss):
        most = np.where(rivals, log + np.log(len(slope)) - slope - excess.logs, -np.inf)
        lost = np.exp(np.minimum(most, 0.0)).sum(axis=1, where=rivals)
        if (lost < 1.0).all():
            out[k] = float((np.log1p(-lost)[:, None] - np.log(members) - most).min())
    return out


def least_cosine(delta: Floats, sizes: Floats, least: float) -> Floats:
    """Below the cosine to p^mm of every p of these norms (R,) with all margins at least δ (R,).

    least: a lower bound of ‖p^mm‖. p/δ is feasible, and ⟨p/δ, p^mm⟩ ≥ ‖p^mm‖² since p^mm is the
    least feasible point. −1 where δ is not positive.
    """
    return np.maximum(delta * least / sizes, -1.0)


# ---------------------------------------------------------------- one best token


def _path_rows(
    group: Group, name: str, values: Sequence[float], point: Callable[..., dict[str, Any]]
) -> Parts:
    """A row for each instance and value: what `point` finds; nan where nothing separates."""
    parts = []
    for seed, tokens, v, best in zip(
        group.seeds, group.tokens, group.heads, group.solved(group.best), strict=True
    ):
        can = _solved(best)
        row: dict[str, Any] = {
            "seed": seed,
            name: values,
            "separable": can,
            "unsettled": unsettled(best),
            "gap": float(best.gap) if can else np.nan,
            **dict.fromkeys(_MEASURED, np.nan),
        }
        row |= point(tokens, v, best) if can else {}
        parts.append(row)
    return parts


def _seen(tokens: Tokens, v: Floats, path: RegPath) -> dict[str, Any]:
    """What both kinds of paths have at their prompts (R, d)."""
    right = selected_by(tokens, path.weights["p"][..., None]) == Selection.best(tokens, v).indices
    return {
        "right": right.all(axis=1).astype(float),
        "away": 1 - path.correlation,
        "log_excess": path.log_excess,
    }


def in_balls(group: Group, loss: str, factors: Sequence[float], starts: int) -> Parts:
    """The least loss with ‖p‖ ≤ R, R a factor times ‖p^mm‖."""

    def point(tokens: Tokens, v: Floats, best: Certificate) -> dict[str, Any]:
        radii = np.array(factors) * best.upper
        path = regpath(tokens, model="prompt", head=v, loss=loss, radii=radii, starts=starts)
        ray = np.asarray(best.W)[:, 0] / best.upper * radii[:, None]
        excess, known = above(tokens, v, loss, ray)
        return {
            **_seen(tokens, v, path),
            "still": path.residual,
            "outside": path.size / radii - 1,
            "above": path.log_excess - known,
            "unsure": 1 - least_cosine(sure_margins(excess, known), radii, best.lower),
        }

    return _path_rows(group, "factor", factors, point)


def penalized(group: Group, penalties: Sequence[float], loss: str = "logistic") -> Parts:
    """The least loss plus λ‖p‖²/2; digits: −log₁₀ λ."""
    lam = np.array(penalties)

    def objective(log: Floats, p: Floats) -> Floats:
        """(L − floor)/λ + ‖p‖²/2 at each prompt (R, d)."""
        return np.exp(log - np.log(lam)) + (p**2).sum(axis=1) / 2

    def point(tokens: Tokens, v: Floats, best: Certificate) -> dict[str, Any]:
        with np.errstate(over="ignore"):  # of a polished end that is then not taken
            options: dict[str, Any] = {"model": "prompt", "head": v, "loss": loss, "starts": 1}
            path = regpath(tokens, penalties=penalties, **options)
        p, sizes = path.weights["p"], path.size[:, None]
        rays = [np.asarray(best.W)[:, 0] / best.upper * sizes * times
                for times in np.geomspace(0.5, 2.0, 41)]  # fmt: skip
        least = np.min([objective(above(tokens, v, loss, ray)[1], ray) for ray in rays], axis=0)
        # Cut off at sizes whose squares leave the floats.
        pull = evaluate_at(tokens, v, p, model="prompt", loss=loss).gradient
        size = np.exp(np.minimum(pull.log_scale["p"] - np.log(lam), 300.0))
        rest = pull.direction["p"] * size[:, None] + p
        return {
            **_seen(tokens, v, path),
            "still": np.linalg.norm(rest, axis=1) / path.size,
            "above": (objective(path.log_excess, p) - least) / path.size**2 * 2,
        }

    parts = _path_rows(group, "penalty", penalties, point)
    return [{**part, "digits": -np.log10(lam)} for part in parts]


def _left(last: Table, first: Table) -> float:
    """The largest ratio of 1 − cosine at the end to that at the beginning, by instance."""
    return float((last.away / first.away.clip(lower=1e-300)).max())


def ball_checks(table: Table, thresholds: Any) -> Checks:
    """Directions, losses and stationarity at every radius."""
    unit = table.factor[table.factor >= 1].min()
    for loss, rows in table.groupby("loss", sort=False):
        rows = rows[rows.separable].set_index("seed")
        last = rows[rows.factor == table.factor.max()]
        yield equals(f"{loss}: instances that select the best tokens", last.right.sum(), len(last))
        for what, seen, threshold in (
            # An angle of 0.045; over five decades of R, two are asked of the direction.
            ("1 − cosine at the last radius", last.away.max(), 1e-3),
            ("1 − cosine at the last radius, over that at R = ‖p^mm‖",
             _left(last, rows[rows.factor == unit]), 0.01),
            # R p^mm/‖p^mm‖ alone reaches −R/‖p^mm‖ up to the logarithm of a constant.
            ("log of the loss above its floor, last radius", last.log_excess.max(), -20.0),
            # Exact at a minimiser: these are for rounding and the ends of iterations.
            ("1 − cosine of p and −∇L, all radii", rows.still.max(), 1e-6),
            ("‖p‖/R − 1", rows.outside.max(), 1e-9),
            ("log loss above that of R p^mm/‖p^mm‖", rows.above.max(), 1e-9),
            # At most log(nTC)·‖p^mm‖/R, C the largest ratio of slopes times score gaps.
            ("1 − cosine that any p as good as R p^mm/‖p^mm‖ can have, last radius",
             last.unsure.max(), 1e-3),
        ):  # fmt: skip
            yield at_most(f"{loss}: {what}", seen, threshold)
    yield from _end_checks(table, table.loss.nunique())


def penalty_checks(table: Table, thresholds: Any) -> Checks:
    """Directions, losses and stationarity at every penalty."""
    inside = table[table.separable].set_index("seed")
    last = inside[inside.penalty == table.penalty.min()]
    first = inside[inside.penalty == table.penalty.max()]
    yield equals("instances that select the best tokens", last.right.sum(), len(last))
    # ‖p‖ is about log(1/λ) ‖p^mm‖, 690 times at the least penalty: 31 times may stand across it.
    yield at_most("1 − cosine at the least penalty", last.away.max(), 1e-3)
    # log(1/λ) grows 150 times in between, and 1 − cosine falls as its inverse square.
    yield at_most("1 − cosine at the least penalty, over that at the largest",
                  _left(last, first), 0.01)  # fmt: skip
    yield at_most("log of the loss above its floor, least penalty", last.log_excess.max(), -20.0)
    # Exact at a minimiser: both are for rounding and the ends of iterations.
    yield at_most("‖∇L + λp‖ / ‖λp‖, all penalties", inside.still.max(), 1e-3)
    yield at_most("L + λ‖p‖²/2 above that of the best multiple of p^mm, in λ‖p‖²/2",
                  inside.above.max(), 1e-9)  # fmt: skip
    yield from _end_checks(table, 1)


def _end_checks(table: Table, losses: int) -> Checks:
    """Certificates, and how many instances are judged."""
    once = table.drop_duplicates("seed")
    yield equals("problems neither solved nor proved infeasible", once.unsettled.sum(), 0)
    count = int(once.separable.sum())
    yield Premises(count * losses, f"best tokens separable in {count} of {len(once)} random "
                   "instances; only those are judged")  # fmt: skip


# ---------------------------------------------------------------- sets of good tokens

# Below this ratio of the second least norm of the union's pieces to the least, or above this
# cosine of the two candidate directions, an instance does not tell them apart.
_RATIO, _ALIKE = 1.01, 0.99


class SetInstance(NamedTuple):
    """Tokens whose kept sets share their value, the head, and the sets.

    All labels are +1 and h is convex, so h(o) ≤ h(g) − Σ_t s_t (h(g) − h(x_t)) with g the kept
    value: attention off the sets costs loss, wherever it goes.
    """

    tokens: Tokens
    head: Relu
    sets: Selection

    @property
    def choices(self) -> list[tuple[int, ...]]:
        """Every choice of one token of each set."""
        return list(product(*(np.flatnonzero(row) for row in self.sets.kept)))


def draw_sets(
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
    return [Problem.any_of(instance.tokens, instance.sets, w) for w in instance.choices]


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
        floor, signs = float(loss.value(scores).mean()), np.where(kept, 0.0, np.sign(gaps))
        return cls(loss, signs, logs, scores, floor, (good[:, None] - X) @ V, good @ V, kept)

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


def set_task(instance: SetInstance) -> BallTask:
    """The minimisation of the logistic loss over prompts."""
    return BallTask(
        Batch.of(instance.tokens), model_of("prompt"), norm_of("frobenius"), loss_of("logistic"),
        instance.head, 1, SetExcess.of(instance),
    )  # fmt: skip


def over_sets(group: Group, starts: int, factors: Sequence[float]) -> Parts:
    """A row for each instance and radius, factor times the least norm of the union."""
    return [_in_sets(seed, draw_sets(seed), starts, np.array(factors)) for seed in group.seeds]


def _in_sets(seed: int, instance: SetInstance, starts: int, factors: Floats) -> dict[str, Any]:
    """The rows of one instance.

    costly: attention off the sets costs loss; ratio: the second least norm of the union's pieces
    over the least, 0 where a piece is not settled; inside: an instance that is judged; agreed:
    whether the winners are those of the least piece; away, tied: 1 − cosine to the least piece, and
    cosine to the tied solution; above: log loss less that on the ray.
    """
    own = solve_many(pieces(instance))
    union = solve_sets(instance.tokens, instance.sets)
    ties = solve(Problem.of(instance.tokens, instance.sets))
    work, stream = set_task(instance), np.random.default_rng([seed, 1])
    begin = [c.W for c in [*own, ties] if c.W is not None]
    begin += [work.random(stream) for _ in range(starts)]
    p = _least(work, begin, factors * union.certificate.upper)
    upper = np.array([np.inf if c.W is None else c.upper for c in own])
    best = int(upper.argmin())
    rest = [np.inf if c.W is None else c.lower for j, c in enumerate(own) if j != best]
    open_ones = sum(map(unsettled, [*own, ties]))
    ratio = min(rest) / upper[best] if not open_ones and ties.W is not None else 0.0
    target, excess = own[best], SetExcess.of(instance)
    costly = bool((excess.signs[~instance.sets.kept] > 0).all())
    apart = ratio >= _RATIO and ties.W is not None and cosine(ties.W, target) <= _ALIKE
    radii = factors * target.upper
    ray = np.asarray(target.W) / target.upper
    logs = np.array([work.log_excess(x[:, None]) for x in p])
    known = np.array([work.log_excess(R * ray) for R in radii])
    unsure = np.full(len(p), np.inf)
    if costly and ratio > 0:
        delta = sure_margins(excess, known, int(instance.sets.kept[0].sum()))
        sure = least_cosine(delta, radii, target.lower)
        # In any other piece such a p would be shorter than the least norm there.
        unsure = np.where(delta * target.upper > radii / ratio, 1 - sure, np.inf)
    return {
        "seed": seed, "costly": costly, "ratio": float(ratio), "inside": costly and apart,
        "agreed": bool((np.array(instance.choices[best]) == union.winners).all()),
        "unsettled": open_ones,
        "gap": max(float(c.gap) for c in [*own, ties] if c.W is not None),
        "factor": factors, "away": 1 - cosines(p, target), "tied": cosines(p, ties),
        "log_excess": logs, "above": logs - known,
        "still": np.array([work.residual(x[:, None])[0] for x in p]), "unsure": unsure,
    }  # fmt: skip


def _least(work: BallTask, starts: list[Floats], radii: Floats) -> Floats:
    """The prompts p (R, d) of least loss, each from all starts and from the one before."""
    p, last = [], list[Floats]()
    for R in radii:
        ends = [work.least(x, float(R)) for x in [*starts, *last]]
        last = [min(ends, key=lambda x: work(x)[0])]
        p.append(last[0][:, 0])
    return np.stack(p)


def set_checks(table: Table, thresholds: Any) -> Checks:
    """Directions, losses and stationarity at every radius."""
    rows = table[table.inside].set_index("seed")
    last = rows[rows.factor == table.factor.max()]
    first = rows[rows.factor == table.factor[table.factor >= 1].min()]
    yield equals(
        "instances whose winners are those of the least piece", last.agreed.sum(), len(last)
    )
    yield at_most("1 − cosine to the union's solution, last radius", last.away.max(), 1e-3)
    yield at_most("1 − cosine at the last radius, over that at R = ‖p^mm‖", _left(last, first),
                  0.01)  # fmt: skip
    yield at_most("cosine to the tied solution less that to the union's, last radius",
                  (last.tied - 1 + last.away).max(), -0.01)  # fmt: skip
    yield at_most("log of the loss above its floor, last radius", last.log_excess.max(), -20.0)
    yield at_most("1 − cosine of p and −∇L, all radii", rows.still.max(), 1e-6)
    yield at_most("log loss above that of R p^mm/‖p^mm‖", rows.above.max(), 1e-9)
    yield at_most("1 − cosine that any p as good as R p^mm/‖p^mm‖ can have, last radius",
                  last.unsure.max(), 1e-3)  # fmt: skip
    once = table.drop_duplicates("seed")
    yield equals("problems neither solved nor proved infeasible", once.unsettled.sum(), 0)
    yield Premises(
        len(last),
        f"attention off the sets costs loss in {once.costly.sum()} of {len(once)} random "
        f"instances; in {len(last)} the union has one least piece, apart from the tied solution",
        float(last.gap.max()) if len(last) else 0.0,
    )


# ---------------------------------------------------------------- the studies

_FIGURE = {
    "kind": "curves",
    "where": lambda t: t.separable,
    "x": "factor",
    "value": "away",
    "band": "half",
    "log": "xy",
    "level": 1e-3,
    "xlabel": "R / ‖p^mm‖",
    "ylabel": "1 − cosine to the certified direction (median, middle half)",
}
_study = partial(Study, kind="theorem", gap=1e-9)
_SPHERE = {"n": 5, "T": 5, "d": 8, "queries": "none"}

STUDIES = (
    _study(
        id="A.regularization-path",
        title="The least loss in a growing ball",
        source="paper",
        statement="When each input has one best token and some prompt selects them all, the prompt "
        "of least loss with ‖p‖ ≤ R turns into the max-margin direction of the best tokens as R "
        "grows, for every decreasing loss, and the loss tends to that of the best tokens. This is "
        "paper B's theorem for any norm: a prompt is the case of one common query z, where the W "
        "of least Frobenius norm is p zᵀ/‖z‖².",
        family="sphere",
        grid={"loss": ["logistic", "exponential", "linear"]},
        run={
            **_SPHERE,
            "starts": 2,
            "factors": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 100_000.0],
        },
        seeds=20,
        group=5,
        measure=in_balls,
        checks=ball_checks,
        quick={"seeds": 4, "run": {"starts": 1, "factors": [0.3, 1.0, 10.0, 100.0, 100_000.0]}},
        figure={**_FIGURE, "lines": "loss"},
        reference="tarzanagh2023svm",
        theorem="B v1, Theorem 9",
    ),
    _study(
        id="A.vanishing-penalty",
        title="A vanishing penalty",
        source="derived",
        statement="When each input has one best token and some prompt selects them all, the prompt "
        "that minimises the loss plus λ‖p‖²/2 tends, for λ → 0, to the same direction as the "
        "prompt of least loss in a growing ball: the max-margin one. It is the least in its own "
        "ball.",
        family="sphere",
        run={**_SPHERE, "penalties": [1e-2, 1e-4, 1e-8, 1e-16, 1e-32, 1e-64, 1e-128, 1e-300]},
        seeds=8,
        group=2,
        measure=penalized,
        checks=penalty_checks,
        quick={"seeds": 2, "run": {"penalties": [1e-2, 1e-8, 1e-300]}},
        figure={**_FIGURE, "x": "digits", "xlabel": "−log₁₀ of the penalty λ"},
    ),
    _study(
        id="A.nonlinear-head-path",
        title="Interchangeable tokens under a nonlinear head",
        source="from memory",
        statement="When each input has a set of good tokens and attention off the sets costs loss, "
        "the prompt of least loss with ‖p‖ ≤ R approaches, as R grows, the shortest prompt for "
        "which some token of each set beats every token off it. Tested with sets that share their "
        "value under a ReLU head: tokens of one set need not tie, and do not.",
        run={
            "starts": 4,
            "factors": [0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0, 10_000.0, 100_000.0],
        },
        seeds=20,
        group=4,
        measure=over_sets,
        checks=set_checks,
        quick={"seeds": 4, "run": {"starts": 1, "factors": [1.0, 10.0, 100.0, 100_000.0]}},
        figure={
            **_FIGURE,
            "where": lambda t: t.ratio >= _RATIO,
            "value": {"away": "the union's solution", "1 - tied": "ties inside the sets"},
        },
    ),
)

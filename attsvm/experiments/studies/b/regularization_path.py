"""B: the least loss in growing balls, of any norm, and in cones of token orders around a selection.

In balls it turns to the max-margin solution of the best tokens; in a cone to W^mm_α exactly if the
selection α is locally optimal.

For a selection α let O_i be the tokens of input i with lower score than α_i and H_i the others.

    cone_ε(α) = {W : min_i max_{t ∈ O_i} min_{τ ∈ H_i} (x_it − x_iτ)ᵀ W z_i ≥ ε‖W‖}

is a union of convex cones, one for each choice of t_i ∈ O_i in the inputs with H_i not empty. Let
N⋆ be the least norm in it of a W with (x_iα − x_it)ᵀ W z_i ≥ 1 for all t ∈ O_i, met at V⋆. Where
‖W‖ ≥ R₀ the tokens of H_i count for at most half of what the low ones do, and

    |ℓ'|_min g e^{−m}/(2nT) ≤ L(W) − L(α),      L(R V⋆/N⋆) − L(α) ≤ |ℓ'|_max G e^{−R/N⋆}/n

with m the worst of these margins at W (0 if negative), g the least score gap to a low token and G
the sum of all. So a W of the cone whose loss is no larger than that of R V⋆/N⋆ has

    m ≥ R/N⋆ − C,    C = log(2T (G/g) |ℓ'|_max/|ℓ'|_min):

every path of least losses tends to the largest margin in the cone. If W^mm_α lies in the cone then
V⋆ = W^mm_α; if not, N⋆ > ‖W^mm_α‖ and the path stays away from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts, selected_by
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, at_most, equals
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import verdict_on
from attsvm.theory.regularization_path.ball import BallTask, descend
from attsvm.theory.regularization_path.excess import Excess
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.heads import head_of
from attsvm.training.losses import loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch

# ---------------------------------------------------------------- balls


def in_balls(group: Group, norm: str, radii: Sequence[float]) -> Parts:
    """The least loss in balls whose radii are multiples of the least norm.

    Instances that are not separable for their best tokens are left out. stationary: how far the
    point is from stationary on its sphere; size: its norm over the radius; excess: its loss above
    that of the best tokens.
    """
    parts: Parts = []
    found = group.solved(group.best, norm)
    each = zip(group.seeds, group.tokens, group.heads, group.best, found, strict=True)
    for seed, tokens, v, best, c in each:
        if not np.isfinite(c.upper):
            continue
        path = regpath(tokens, model=group.run["model"], head=v, radii=c.upper * np.array(radii),
                       seed=seed, starts=2)  # fmt: skip
        parts.append({
            "seed": seed, "radius": radii, "correlation": path.correlation, "share": path.share,
            "stationary": path.residual, "size": path.size / path.radii,
            "excess": path.loss - path.infimum,
            "best": (selected_by(tokens, path.matrices()[:, 0]) == best).all(axis=1),
            "gap": float(c.gap),
        })  # fmt: skip
    return parts


def ball_checks(table: Table, thresholds: Any) -> Checks:
    """Paths of stationary points of the right size turn to the certified direction."""
    ends = table[table.radius == table.radius.max()]
    yield equals("paths that do not end at the best tokens", (~ends.best).sum(), 0)
    if "correlation" in thresholds:
        yield at_least("least correlation at the largest radius",
                       ends.correlation.min(skipna=False), thresholds["correlation"])  # fmt: skip
    yield at_least("least certified margin share at the largest radius",
                   ends.share.min(skipna=False), thresholds["share"])  # fmt: skip
    first = table.radius == table.radius.min()
    yield at_most("largest distance from stationary, radii after the first",
                  max(table.stationary[~first].max(), 0.0), 1e-4)  # fmt: skip
    yield at_most("largest size over its radius", table["size"].max(), 1 + 1e-6)
    yield at_most("loss above that of the best tokens at the largest radius",
                  max(ends.excess.max(), 0.0), 1e-9)  # fmt: skip
    yield Premises(len(ends), f"{len(ends)} instances are separable for their best tokens")


# ---------------------------------------------------------------- cones

# Rounds of the multiplier method, and the weight of a squared violation.
_ROUNDS, _WEIGHT = 8, 10.0
# Rounds of the fixed point of the norm, and where it has settled; it is certified a share below.
_FIXED, _SETTLED, _BELOW = 60, 1e-9, 1e-6
# How far from a cone, as a share of its ε, a W still counts as inside.
INSIDE = 1e-5
# The ε of the cones of selections that are not locally optimal.
_EPSILON = 0.1

# A choice of a low token in each input with tokens of higher score.
Choice = tuple[int, ...]


class Orders(NamedTuple):
    """The cones of one selection: instance, head, tokens α (n,), O_i and H_i of each input, and
    the loss above that of α."""

    tokens: Tokens
    v: Floats
    alpha: Ints
    low: list[Ints]
    high: list[Ints]
    excess: Excess

    @classmethod
    def of(cls, tokens: Tokens, v: Floats, alpha: Ints) -> Orders:
        """The tokens of lower and of other score of each input."""
        scores = tokens.scores(v)
        own = scores[np.arange(tokens.n), alpha]
        others = np.arange(tokens.T)[None] != np.asarray(alpha)[:, None]
        low = [np.flatnonzero(others[i] & (scores[i] < own[i])) for i in range(tokens.n)]
        high = [np.flatnonzero(others[i] & (scores[i] >= own[i])) for i in range(tokens.n)]
        return cls(tokens, v, alpha, low, high, Excess.over(tokens, alpha, v, loss_of("logistic")))

    @property
    def wrong(self) -> list[int]:
        """The inputs with tokens of higher score."""
        return [i for i, high in enumerate(self.high) if len(high)]

    def choices(self) -> list[Choice]:
        """Every choice; none where an input has no token of lower score."""
        return list(product(*(self.low[i].tolist() for i in self.wrong)))

    def logits(self, W: Floats) -> Floats:
        """x_itᵀ W z_i (n, T)."""
        X = np.asarray(self.tokens.X)
        return np.asarray(np.einsum("ntd,dq,nq->nt", X, W, self.tokens.queries))

    def depth(self, W: Floats) -> float:
        """min_i max_t min_τ (x_it − x_iτ)ᵀ W z_i; inf without higher tokens, −inf without lower."""
        logits, low, high = self.logits(W), self.low, self.high
        each = [logits[i, low[i]].max(initial=-np.inf) - logits[i, high[i]].max()
                for i in self.wrong]  # fmt: skip
        return float(min(each, default=np.inf))

    def margin(self, W: Floats) -> float:
        """The worst (x_iα − x_it)ᵀ W z_i over low tokens."""
        each = zip(self.logits(W), self.alpha, self.low, strict=True)
        return float(min(row[a] - row[low].max(initial=-np.inf) for row, a, low in each))

    def problem(self, choice: Choice, depth: float, *, margin: float = 1.0) -> Problem:
        """Margins over the low tokens, and `depth` of the chosen ones over the high tokens.

        With depth ε and margin 0 a least norm above 1 says that the cone of the choice is empty: a
        W in it of norm 1 would do.
        """
        T, rows = self.tokens.T, []
        for i, low in enumerate(self.low):
            rows += [(i * T + int(self.alpha[i]), i * T + int(t), i, margin) for t in low]
        for i, t in zip(self.wrong, choice, strict=True):
            rows += [(i * T + t, i * T + int(tau), i, depth) for tau in self.high[i]]
        hi, lo, query, b = (np.array(part) for part in zip(*rows, strict=True))
        keys, none = np.asarray(self.tokens.keys).reshape(-1, self.tokens.d), np.empty(0, np.int64)
        ties = (none, none, none, np.empty(0))
        return Problem(keys, self.tokens.queries, hi, lo, query, b, *ties, width=T)

    def holding(self, W: Floats, depth: float) -> list[Choice]:
        """The choices whose tokens stand before the high ones by this depth at W."""
        count = sum(map(len, self.low))
        return [t for t in self.choices() if self.problem(t, 0.0).margins(W)[count:].min() >= depth]

    def constant(self) -> float:
        """C of the module's docstring."""
        scores = self.tokens.scores(self.v)
        gaps = [scores[i, self.alpha[i]] - scores[i, low] for i, low in enumerate(self.low)]
        total, least = sum(float(g.sum()) for g in gaps), min(float(g.min()) for g in gaps)
        slopes = 1 / (1 + np.exp([scores.min(), scores.max()]))  # |ℓ'|, largest and least
        return float(np.log(2 * self.tokens.T * total / least * slopes[0] / slopes[1]))

    def least_radius(self, epsilon: float) -> float:
        """R₀: from here on the high tokens count for at most half of the low ones."""
        scores, out = self.tokens.scores(self.v), 0.0
        for i in self.wrong:
            own = scores[i, self.alpha[i]]
            least = float((own - scores[i, self.low[i]]).min())
            out = max(out, float(np.log(2 * (scores[i, self.high[i]] - own).sum() / least)))
        return max(out, 0.0) / epsilon

    def loss(self, W: Floats) -> float:
        """log(L(W) − L(α)); −inf where L(W) ≤ L(α)."""
        above = self.excess(self.task("frobenius").at(W)[0].logs[0])
        return above.log if above.sign > 0 else -np.inf

    def task(self, norm: str, shift: float = 0.0) -> BallTask:
        """The loss above that of α, to be minimised in balls."""
        return BallTask(
            Batch.of(self.tokens), model_of("weight"), norm_of(norm), loss_of("logistic"),
            head_of(self.v, self.tokens.d), self.tokens.d, excess=self.excess, shift=shift,
        )  # fmt: skip


def least_in_cone(orders: Orders, choice: Choice, epsilon: float, norm: str) -> float:
    """The N with N = least norm of `problem(choice, ε N)`, from below; inf where there is none.

    The least norm grows with N and its ratio to N falls: rounds from below rise to the fixed point.
    The ratio falls to the least norm of depth ε and margin 0: there is none where that is above 1.
    """
    if solve(orders.problem(choice, epsilon, margin=0.0), norm).lower > 1:
        return np.inf
    size = solve(orders.problem(choice, 0.0), norm).upper
    for _ in range(_FIXED):
        if not np.isfinite(size):
            return np.inf
        larger = solve(orders.problem(choice, epsilon * size), norm).upper
        if larger <= size * (1 + _SETTLED):
            break
        size = larger
    return float(size)


def least_loss(orders: Orders, choice: Choice, epsilon: float, start: Floats, norm: str) -> Floats:
    """A W of least loss on the sphere of the start's norm, in the convex cone of a choice.

    By the method of multipliers; what is left of a violation is mended by a share of the start,
    which must lie in the cone.
    """
    geometry = norm_of(norm)
    R = float(geometry.value(start))
    far = -2 * orders.loss(start)
    task = orders.task(norm, shift=100.0 + (far if np.isfinite(far) else 0.0))
    cone = orders.problem(choice, 0.0)
    count = sum(len(low) for low in orders.low)
    rows = np.arange(count, cone.m)
    D, z = cone.differences(rows), cone.queries[cone.query[rows]]
    lam, W = np.zeros(len(rows)), start
    for _ in range(_ROUNDS if len(rows) else 1):
        fixed = lam.copy()

        def objective(x: Floats, held: Floats = fixed) -> tuple[float, Floats]:
            value, slope = task(x)
            short = epsilon * R - np.einsum("kd,dq,kq->k", D, x, z)
            push = np.maximum(held + _WEIGHT * short, 0.0)
            G = slope - np.einsum("k,kd,kq->dq", push, D, z)
            return value + float((push**2).sum()) / (2 * _WEIGHT), G

        W = descend(objective, W, R, geometry)
        short = epsilon * R - np.einsum("kd,dq,kq->k", D, W, z)
        lam = np.maximum(lam + _WEIGHT * short, 0.0)
        if short.max(initial=-np.inf) <= 1e-9 * R:
            break
    for share in (0.0, 1e-6, 1e-4, 1e-2, 1.0):
        mended = (1 - share) * W + share * start
        mended *= R / float(geometry.value(mended))
        if orders.depth(mended) >= epsilon * R * (1 - INSIDE):
            break
    return mended if orders.loss(mended) <= orders.loss(start) else start


class Case(NamedTuple):
    """One selection in one norm: its orders, its certificate, and what that decides.

    local: whether it is locally optimal, None where open; covered: whether each input with tokens
    of higher score has a tight one for sure; depth: the largest ε of a cone that W^mm_α lies in.
    """

    orders: Orders
    best: Certificate
    local: bool | None
    covered: bool
    depth: float

    @property
    def epsilon(self) -> float:
        """Half the depth of W^mm_α where it has one."""
        return self.depth / 2 if self.local else _EPSILON

    @property
    def followed(self) -> bool:
        """Whether its path could be followed: locally optimal and not the best tokens, or not so
        and with lower tokens to stand before the higher ones."""
        orders = self.orders
        some = self.local is not None and orders.wrong and all(map(len, orders.low))
        return bool(some and (not self.local or (self.covered and self.depth > 0)))


def _cases(tokens: Tokens, v: Floats, norm: str) -> list[Case]:
    """All selections of an instance that can be separated, and what their certificates decide."""
    every = [np.array(alpha) for alpha in product(range(tokens.T), repeat=tokens.n)]
    keep = [Selection.of(tokens, alpha) for alpha in every]
    out = []
    found = solve_many([Problem.of(tokens, one) for one in keep], norm)
    for alpha, one, c in zip(every, keep, found, strict=True):
        if c.W is None:
            continue
        orders, inputs = Orders.of(tokens, v, alpha), c.problem.rows[:, 0]
        depth = orders.depth(c.W) / float(c.norm.value(c.W))
        covered = all(bool(c.tight.tight[inputs == i].any()) for i in orders.wrong)
        out.append(Case(orders, c, verdict_on(tokens, one, v, c).locally, covered, depth))
    return out


def _least_norm(case: Case, norm: str) -> tuple[float, Floats | None, list[Choice]]:
    """The least norm certified in the cone, inf where it is empty and 0 where nothing is; the W
    that has it, None where none is found; and the convex cones that hold it."""
    orders, epsilon, size = case.orders, case.epsilon, float(case.best.upper)
    if case.local:
        V = np.asarray(case.best.W)
        return size, V, orders.holding(V, epsilon * float(case.best.norm.value(V)))
    norms, uppers, found = [], [], []
    for t in orders.choices():
        N = least_in_cone(orders, t, epsilon, norm) * (1 - _BELOW)
        empty = np.isinf(N)
        problem = (
            orders.problem(t, epsilon, margin=0.0) if empty else orders.problem(t, epsilon * N)
        )
        c = solve(problem, norm)
        # The least norm grows less than its argument: from lower ≥ N no smaller one fits.
        proved = c.lower > 1 if empty else c.lower >= N > 0
        norms.append(N if proved else (np.inf if c.proof == "exact" else 0.0))
        uppers.append(np.inf if empty else c.upper)
        found.append(c)
    if not np.isfinite(uppers).any():
        return min(norms), None, []
    least = int(np.argmin(uppers))
    return min(norms), np.asarray(found[least].W), orders.choices()[least : least + 1]


def in_cones(group: Group, norm: str, radii: Sequence[float]) -> Parts:
    """All selections of every instance, and the paths of the first one of either kind in the cones
    of their token orders.

    local: whether a selection is locally optimal; covered: whether every input that needs one has a
    tight token; depth: of W^mm in its cones; lost: its path is followed and neither found nor
    proved not to exist. Of a path there is a row for each radius, times the least norm: the worst
    margin as a share of the largest in the cone (share) and of that of W^mm (ratio), the share that
    the cone allows (most), and what is wrong with the point.
    """
    parts: Parts = []
    for seed, tokens, v in zip(group.seeds, group.tokens, group.heads, strict=True):
        seen = set()
        for k, case in enumerate(_cases(tokens, v, norm)):
            part: dict[str, Any] = {
                "seed": seed, "selection": k, "times": np.nan, "lost": False,
                "local": {None: "open", True: "yes", False: "no"}[case.local],
                "covered": case.covered, "depth": case.depth, "gap": float(case.best.gap),
            }  # fmt: skip
            parts.append(part)
            if not case.followed or case.local in seen:
                continue
            seen.add(case.local)
            least, V, choices = _least_norm(case, norm)
            part["lost"] = V is None and least < np.inf
            if V is not None and least < np.inf:
                points = [_point(case, norm, times, least, V, choices) for times in radii]
                part |= {name: np.array([point[name] for point in points]) for name in points[0]}
    return parts


def _point(
    case: Case, norm: str, times: float, least: float, V: Floats, choices: list[Choice]
) -> dict[str, Any]:
    """One point of a path, against the bound that is derived for it where that holds."""
    orders, epsilon, value = case.orders, case.epsilon, case.best.norm.value
    reference = times * V
    R = float(value(reference))
    W = min((least_loss(orders, t, epsilon, reference, norm) for t in choices), key=orders.loss)
    size, margin, from_here = float(value(W)), orders.margin(W), orders.least_radius(epsilon)
    share, own = margin * least / R, float(case.best.upper)
    return {
        "times": float(times),
        "share": share,
        "ratio": margin * own / size,
        "most": own / least if least > 0 else np.inf,
        "outside": orders.depth(W) < epsilon * R * (1 - 2 * INSIDE) or size > R * (1 + 1e-9),
        "below": from_here <= R and share < 1 - orders.constant() * least / R - 2 * _BELOW,
        "higher": from_here <= R and orders.loss(W) > orders.loss(reference) + 1e-9,
        "far": from_here <= size * (1 + 1e-9),
    }


def cone_checks(table: Table, thresholds: Any) -> Checks:
    """W^mm_α lies in a cone exactly if α is locally optimal; the paths end where they must."""
    selections, points = (
        table.drop_duplicates(["norm", "seed", "selection"]),
        table[table.times.notna()],
    )
    ends = points[points.times == points.times.max()]
    for norm, cases in selections.groupby("norm", sort=False):
        covered = cases[(cases.local == "yes") & cases.covered]
        no = cases[cases.local == "no"]
        yield equals(f"{norm}: locally optimal and W^mm in no cone", (covered.depth <= 0).sum(), 0)
        # At the solution the depth is 0 or less; its digits are those of the gap.
        yield equals(f"{norm}: not locally optimal and W^mm in a cone", (no.depth > 1e-5).sum(), 0)
        yield equals(f"{norm}: paths not on file", cases.lost.sum(), 0)
        here, last = points[points.norm == norm], ends[ends.norm == norm]
        yield equals(f"{norm}: points outside their cone or ball", here.outside.sum(), 0)
        yield equals(f"{norm}: points of larger loss than the certified direction",
                     here.higher.sum(), 0)  # fmt: skip
        yield equals(f"{norm}: margins below the derived bound", here.below.sum(), 0)
        own, other = last[last.local == "yes"], last[last.local == "no"]
        # Below the least norm of its cone the path may be anywhere.
        what = "locally optimal: least share of the margin of W^mm at the largest radius"
        yield at_least(f"{norm}, {what}", own.share[own.far].min(), thresholds["share"])
        # Directions in the cone are ε/2 from W^mm at least, since a unit change of W moves a
        # difference of two logits by at most 2: in Frobenius norm the share is below 1 − ε²/8.
        what = "largest share of the margin of W^mm that a W in the cone can have, certified"
        most = 1 - _EPSILON**2 / 8 if norm == "frobenius" else 1 - 1e-4
        yield at_most(f"{norm}, not locally optimal: {what}", other.most.max(), most)
        unlike = (other.ratio > other.most * (1 + 4 * INSIDE)).sum()
        yield equals(f"{norm}, not locally optimal: paths above that share", unlike, 0)
    counts = (selections.local + selections.covered.map({True: "", False: " bare"})).value_counts()
    yield Premises(
        len(ends),
        f"{counts.get('yes', 0)} locally optimal selections with a tight token where one is "
        f"needed, {counts.get('yes bare', 0)} without, {(selections.local == 'no').sum()} not "
        f"locally optimal; {len(ends)} paths",
        selections.gap.max(),
    )


# ---------------------------------------------------------------- the studies

_study = partial(
    Study,
    kind="theorem",
    source="paper",
    family="sphere",
    seeds=10,
    group=2,
    measure=in_balls,
    checks=ball_checks,
    gap=2e-6,
    quick={"seeds": 3, "run": {"radii": [1.0, 10.0, 100.0, 1000.0]}},
    figure={
        "kind": "curves",
        "x": "radius",
        "value": {"1 - correlation": "1 − correlation", "1 - share": "1 − margin share"},
        "log": "xy",
        "xlabel": "radius over the least norm",
        "ylabel": "distance to the max-margin solution",
    },
    theorem="v1, Theorem 2",
)
_RUN = {"n": 4, "T": 5, "d": 6, "radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]}

STUDIES = (
    _study(
        id="B.regularization-path-frobenius",
        title="Regularization path, Frobenius",
        statement="Minimising the loss with ‖W‖_F ≤ R, W_R/R tends to the Frobenius max-margin "
        "direction of the best tokens as R grows, if they are unique and can be separated.",
        run={**_RUN, "model": "weight", "norm": "frobenius"},
        thresholds={"correlation": 0.999, "share": 0.99},
    ),
    _study(
        id="B.regularization-path-nuclear",
        title="Regularization path, nuclear",
        statement="Minimising the loss with ‖K‖² + ‖Q‖² ≤ 2R, K Qᵀ/R tends to the set of nuclear "
        "max-margin solutions of the best tokens as R grows, if they are unique and can be "
        "separated.",
        run={**_RUN, "model": "factored", "norm": "nuclear"},
        # Solutions need not be unique, so the margin share is the measure.
        thresholds={"share": 0.99},
    ),
    Study(
        id="B.local-path",
        title="Local regularization paths",
        kind="theorem",
        source="paper",
        statement="In the cone where a token of lower score stands before all tokens of higher "
        "score, the least loss in growing balls of any norm turns to W^mm of the selection if that "
        "is locally optimal; and W^mm lies in such a cone only if it is. Judged in two norms, with "
        "a tight token in every input that does not keep its best one, and from a least norm on.",
        family="sphere",
        grid={"norm": ["frobenius", "l3"]},
        run={"n": 2, "T": 4, "d": 3, "radii": [10.0, 30.0, 100.0, 300.0, 1000.0]},
        seeds=8,
        group=2,
        measure=in_cones,
        checks=cone_checks,
        gap=2e-8,
        # The derived constant C is below 10: a share of 1 − 10/1000.
        thresholds={"share": 0.99},
        quick={"seeds": 2, "run": {"radii": [10.0, 100.0, 1000.0]}},
        figure={
            "kind": "paths",
            "where": lambda t: t.times.notna(),
            "x": "times",
            "y": "share * most",
            "each": ["seed", "selection"],
            "lines": "local",
            "panels": "norm",
            "log": "x",
            "xlabel": "radius over the least norm (lines: locally optimal)",
            "ylabel": "worst margin over that of W^mm",
        },
        differs="v1 lets a selection be locally optimal without a tight token in an input, which "
        "its Lemma 5, as read, does not cover: where a token of higher score is nearer than all "
        "lower ones, or none is lower, W^mm lies in no cone. The cone holds W = 0, where the loss "
        "may be smaller than that of the selection: the path is one of growing balls from a least "
        "norm on.",
        theorem="v1, Lemma 5, Theorems 9 and 10",
    ),
)

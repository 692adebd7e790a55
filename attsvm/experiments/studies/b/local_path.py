"""B: the least loss in a cone of token orders turns to W^mm_α exactly if α is locally optimal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.order_cones import (
    INSIDE,
    Orders,
    least_in_cone,
    least_loss,
    locally,
    orders_of,
)
from attsvm.experiments.study import Found, Premises, Study, Table, at_least, at_most, equals
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many

# The ε of the cones of selections that are not locally optimal.
_EPSILON = 0.1
# The norm of the fixed point is certified this share below it.
_BELOW = 1e-6


@dataclass(frozen=True, eq=False)
class Case:
    """One selection in one norm: its orders, its certificate, and what that decides.

    local: whether it is locally optimal, None where open; covered: whether each input with tokens
    of higher score has a tight one; depth: the largest ε of a cone that W^mm_α lies in.
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


def _cases(tokens: Tokens, v: Floats, norm: str) -> list[Case]:
    """All selections of an instance that can be separated, and what their certificates decide."""
    every = [np.array(alpha) for alpha in product(range(tokens.T), repeat=tokens.n)]
    problems = [Problem.of(tokens, Selection.of(tokens, alpha)) for alpha in every]
    out = []
    for alpha, c in zip(every, solve_many(problems, norm), strict=True):
        if c.W is None:
            continue
        orders = orders_of(tokens, v, alpha)
        depth = orders.depth(np.asarray(c.W)) / float(c.norm.value(c.W))
        out.append(Case(orders, c, *locally(c, orders), depth))
    return out


def _followed(cases: list[Case]) -> list[Case]:
    """The selections of an instance whose paths are followed: the first that is locally optimal and
    not the best tokens, and the first that is not and has lower tokens to stand before the higher
    ones."""
    can = [
        case
        for case in cases
        if case.local is not None and case.orders.wrong and all(map(len, case.orders.low))
    ]
    local = [case for case in can if case.local and case.covered and case.depth > 0]
    return local[:1] + [case for case in can if not case.local][:1]


def _least_norm(case: Case, norm: str) -> tuple[float, Floats | None, list[tuple[int, ...]]]:
    """The least norm certified in the cone, inf where it is empty and 0 where nothing is; the W
    that has it, None where none is found; and the convex cones that hold it."""
    orders, epsilon, size = case.orders, case.epsilon, float(case.best.upper)
    if case.local:
        V = np.asarray(case.best.W)
        return size, V, orders.holding(V, epsilon * float(case.best.norm.value(V)))
    norms, uppers, found = [], [], []
    for t in orders.choices():
        N = least_in_cone(orders, t, epsilon, norm) * (1 - _BELOW)
        c = solve(orders.at_size(t, epsilon, N), norm)
        # The least norm grows less than its argument: from lower ≥ N no smaller one fits.
        proved = c.lower > 1 if np.isinf(N) else c.lower >= N > 0
        norms.append(N if proved else (np.inf if c.proof == "exact" else 0.0))
        uppers.append(np.inf if np.isinf(N) else c.upper)
        found.append(c)
    if not np.isfinite(uppers).any():
        return min(norms), None, []
    least = int(np.argmin(uppers))
    return min(norms), np.asarray(found[least].W), orders.choices()[least : least + 1]


def measure(group: Group, norm: str, radii: Sequence[float]) -> dict[str, Any]:
    """All selections of every instance, and the paths of some in the cones of their token orders.

    Rows "selection" are of one selection each: whether it is locally optimal, whether every input
    that needs one has a tight token (covered), the depth of W^mm in its cones; lost: its path is
    followed and neither found nor proved not to exist. Rows "path" are of one radius each, times
    the least norm: the worst margin as a share of the largest in the cone (share) and of that of
    W^mm (ratio), the share that the cone allows (most), and what is wrong with the point.
    """
    blank = {"times": np.nan, "share": np.nan, "ratio": np.nan, "most": np.nan, "outside": False,
             "below": False, "higher": False, "far": False}  # fmt: skip
    rows: list[dict[str, Any]] = []
    for seed, tokens, v in zip(group.seeds, group.tokens, group.heads, strict=True):
        cases = _cases(tokens, v, norm)
        followed = _followed(cases)
        for k, case in enumerate(cases):
            base = {
                "seed": seed, "selection": k,
                "local": "open" if case.local is None else "yes" if case.local else "no",
                "covered": case.covered, "depth": case.depth, "gap": float(case.best.gap),
            }  # fmt: skip
            points: list[dict[str, Any]] = []
            lost = False
            if case in followed:
                least, V, choices = _least_norm(case, norm)
                lost = V is None and least < np.inf
                if V is not None and least < np.inf:
                    points = [_point(case, norm, times, least, V, choices) for times in radii]
            rows.append({**base, "row": "selection", "lost": lost, **blank})
            rows += [{**base, "row": "path", "lost": lost, **point} for point in points]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _point(
    case: Case, norm: str, times: float, least: float, V: Floats, choices: list[tuple[int, ...]]
) -> dict[str, Any]:
    """One point of a path, against the bound that is derived for it where that holds."""
    orders, epsilon, value = case.orders, case.epsilon, case.best.norm.value
    reference = times * V
    R = float(value(reference))
    W = min((least_loss(orders, t, epsilon, reference, norm) for t in choices), key=orders.loss)
    size, own = float(value(W)), float(case.best.upper)
    margin = orders.margin(W)
    share = margin * least / R
    reached = orders.least_radius(epsilon) <= R
    return {
        "times": float(times),
        "share": share,
        "ratio": margin * own / size,
        "most": own / least if least > 0 else np.inf,
        "outside": orders.depth(W) < epsilon * R * (1 - 2 * INSIDE) or size > R * (1 + 1e-9),
        "below": reached and share < 1 - orders.constant() * least / R - 2 * _BELOW,
        "higher": reached and orders.loss(W) > orders.loss(reference) + 1e-9,
        "far": orders.least_radius(epsilon) <= size * (1 + 1e-9),
    }


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """W^mm_α lies in a cone exactly if α is locally optimal; the paths end where they must."""
    selections, points = (table[table.row == name] for name in ("selection", "path"))
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
    gap = selections.gap.max()
    yield at_most("largest certified gap", gap, 2e-8)
    counts = (selections.local + selections.covered.map({True: "", False: " bare"})).value_counts()
    yield Premises(
        len(ends),
        f"{counts.get('yes', 0)} locally optimal selections with a tight token where one is "
        f"needed, {counts.get('yes bare', 0)} without, {(selections.local == 'no').sum()} not "
        f"locally optimal; {len(ends)} paths",
        gap,
    )


STUDY = Study(
    id="B.local-path",
    title="Local regularization paths",
    kind="theorem",
    source="paper",
    statement="In the cone where a token of lower score stands before all tokens of higher score, "
    "the least loss in growing balls of any norm turns to W^mm of the selection if that is locally "
    "optimal; and W^mm lies in such a cone only if it is. Judged in two norms, with a tight token "
    "in every input that does not keep its best one, and from a least norm on.",
    family="sphere",
    grid={"norm": ["frobenius", "l3"]},
    run={"n": 2, "T": 4, "d": 3, "radii": [10.0, 30.0, 100.0, 300.0, 1000.0]},
    seeds=8,
    group=2,
    measure=measure,
    checks=checks,
    # The derived constant C is below 10: a share of 1 − 10/1000.
    thresholds={"share": 0.99},
    quick={"seeds": 2, "run": {"radii": [10.0, 100.0, 1000.0]}},
    figure={
        "kind": "paths",
        "where": lambda t: t.row == "path",
        "x": "times",
        "y": "share * most",
        "each": ["seed", "selection"],
        "lines": "local",
        "panels": "norm",
        "log": "x",
        "xlabel": "radius over the least norm (lines: locally optimal)",
        "ylabel": "worst margin over that of W^mm",
    },
    differs="v1 lets a selection be locally optimal without a tight token in an input. As read, "
    "its Lemma 5 does not cover that: where a token of higher score is nearer than all lower ones, "
    "or none is lower, W^mm lies in no cone, though descent started along it stays. The cone holds "
    "W = 0, where the loss may be smaller than that of the selection: the path is one of growing "
    "balls with a least norm, derived here.",
    reference="tarzanagh2023svm",
    theorem="v1, Lemma 5, Theorems 9 and 10",
)

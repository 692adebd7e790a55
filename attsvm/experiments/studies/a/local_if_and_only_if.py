"""A: descent started near a max-margin direction stays there exactly at locally optimal tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group, selected_by
from attsvm.experiments.studies.shared.local_cones import cone, descend, parts, steps_needed
from attsvm.experiments.studies.shared.prompt_paths import prompts
from attsvm.experiments.study import Found, Premises, Study, at_least, at_most, equals, info
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# A start of any angle that ends this near its direction, with its tokens leading, has returned:
# 2.6 degrees, below the second angle of the cones.
_NEAR = 0.999


def measure(
    group: Group, margin: float, pull: float, tilt: float, pace: float, steps: int,
    shares: Sequence[float], directions: int, angles: Sequence[float],
) -> dict[str, Any]:  # fmt: skip
    """A row for each feasible selection, started near its direction and, if locally optimal, wider.

    feasible: how many selections of the instance are; edge: angle of the derived cone in degrees,
    radius its R; tilt: distance of the start over what is asked; grown: of the part along p^mm;
    kept_s, stayed_s: whether the tokens, and the direction too, are kept from s R; returned_a:
    share of the directions at a degrees that come back (nan: not locally optimal).
    """
    listed = [
        (b, choice, local)
        for b in range(len(group))
        for choice, local in _verdicts(group.tokens[b], group.heads[b]).items()
    ]
    owner = np.array([b for b, _, _ in listed])
    choice = np.array([c for _, c, _ in listed])
    stack = [(group.tokens[b], group.heads[b]) for b in owner]
    best = solve_many([
        Problem.of(pair[0], Selection.of(pair[0], c))
        for pair, c in zip(stack, choice, strict=True)
    ])  # fmt: skip
    W = np.stack([np.asarray(c.require().W)[:, 0] for c in best])
    cones = [
        cone(*stack[k], best[k], choice=choice[k], local=local is True, margin=margin, pull=pull,
             tilt=tilt, pace=pace)
        for k, (_, _, local) in enumerate(listed)
    ]  # fmt: skip
    R, lean, rate = (
        np.array([[getattr(c, name)] for c in cones]) for name in ("radius", "tilt", "pace")
    )
    size = np.linalg.norm(W, axis=1)
    counts = np.bincount(owner, minlength=len(group))
    draws = [np.random.default_rng([*group.tokens[0].X.shape, seed, 7]) for seed in group.seeds]
    noise = np.concatenate([
        draw.standard_normal((count, W.shape[1]))
        for draw, count in zip(draws, counts, strict=True)
    ])  # fmt: skip
    near = R * (W + lean * _unit(noise))
    columns: dict[str, Any] = {
        "seed": np.array(group.seeds)[owner],
        "selection": np.array([" ".join(map(str, c)) for c in choice]),
        "feasible": counts[owner],
        "local": np.array([_WORDS[local] for _, _, local in listed]),
        "best": (group.best[owner] == choice).all(axis=1),
        "radius": R[:, 0],
        "edge": np.degrees(np.arctan(lean[:, 0] / size)),
        "tilt": np.linalg.norm(near / R - W, axis=1) / lean[:, 0],
        "gap": np.array([float(c.gap) for c in best]),
    }
    count = steps_needed(cones, W, most=steps)
    for share in shares:
        start = share * near
        end = descend(stack, start, lr=share * (rate * R)[:, 0], steps=count, model="prompt")[1][-1]
        kept = _selects(stack, end, choice)
        scaled = [replace(c, radius=share * c.radius) for c in cones]
        runs = zip(scaled, start, end, W, strict=True)
        inside = [c.holds(p0, p, best=w) for c, p0, p, w in runs]
        columns[f"kept_{share:g}"] = kept
        columns[f"stayed_{share:g}"] = kept & np.array(inside)
    columns["away"] = 1 - (end * W).sum(axis=1) / np.linalg.norm(end, axis=1) / size
    along = np.array([parts(p, w)[0] for p, w in zip(end, W, strict=True)])
    columns["grown"] = along / (shares[-1] * R[:, 0])

    local = np.array([k for k, (_, _, verdict) in enumerate(listed) if verdict], dtype=int)
    unit = _unit(W[local])[:, None]
    side = np.concatenate([
        draw.standard_normal(((owner[local] == b).sum(), directions, W.shape[1]))
        for b, draw in enumerate(draws)
    ])  # fmt: skip
    side = _unit(side - (side * unit).sum(axis=2, keepdims=True) * unit)
    angle = np.radians(angles)[:, None, None, None]
    wide = (R[:, 0] * size)[local, None, None] * (np.cos(angle) * unit + np.sin(angle) * side)
    which = np.broadcast_to(local[None, :, None], wide.shape[:3]).ravel()
    starts, pairs = wide.reshape(-1, W.shape[1]), [stack[k] for k in which]
    every = np.full(len(which), steps)
    end = descend(pairs, starts, lr=(rate * R)[which, 0], steps=every, model="prompt")[1][-1]
    cosines = (end * W[which]).sum(axis=1) / np.linalg.norm(end, axis=1) / size[which]
    back = _selects(pairs, end, choice[which]) & (cosines >= _NEAR)
    for a, row in zip(angles, back.reshape(wide.shape[:3]).mean(axis=2), strict=True):
        columns[f"returned_{a:g}"] = np.full(len(listed), np.nan)
        columns[f"returned_{a:g}"][local] = row
    return columns


_WORDS = {True: "yes", False: "no", None: "undecided"}


def _verdicts(tokens: Any, v: Floats) -> dict[tuple[int, ...], bool | None]:
    """Every feasible selection, and whether it is locally optimal; None: undecided."""
    found = local_optima(tokens, v)
    known = {choice: verdict.locally for choice, verdict in found.local}
    return {c: known.get(c, False) for c in (tuple(map(int, row)) for row in found.choices)}


def _unit(x: Floats) -> Floats:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _selects(pairs: Sequence[Any], p: Floats, choice: Any) -> Any:
    """Whether each prompt (K, d) selects its tokens (K, n)."""
    rows = zip(pairs, p, choice, strict=True)
    return np.array([(selected_by(t, x[:, None]) == c).all() for (t, _), x, c in rows], dtype=bool)


def _numbers(table: DataFrame, prefix: str) -> list[str]:
    """The numbers in the names of the columns that begin like this, as texts."""
    return [name.removeprefix(prefix) for name in table if name.startswith(prefix)]


def _kinds(table: DataFrame) -> dict[str, Any]:
    """The share of returned starts (L, A) by kind of optimum."""
    names = [f"returned_{a}" for a in _numbers(table, "returned_")]
    local = table[table.local == "yes"]
    kinds = {"best tokens": local[local.best], "other locally optimal tokens": local[~local.best]}
    return {name: rows[names].to_numpy() for name, rows in kinds.items() if len(rows)}


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Locally optimal selections are kept from the edges of their cones, and no others."""
    yes, no = (table[table.local == word] for word in ("yes", "no"))
    *smaller, full = _numbers(table, "stayed_")
    yield equals("locally optimal: stayed, from the edge of the cone", yes[f"stayed_{full}"].sum(),
                 len(yes))  # fmt: skip
    yield equals("not locally optimal: stayed", no[f"stayed_{full}"].sum(), 0)
    yield equals("not locally optimal: tokens kept to the end", no[f"kept_{full}"].sum(), 0)
    yield at_least("locally optimal selections judged", len(yes), 1)
    yield at_least("other selections judged", len(no), 1)
    owners = table.groupby(["n", "T", "d", "seed"])
    different = owners.selection.nunique()
    missing = (owners.feasible.first() - different).sum() + len(table) - different.sum()
    yield equals("feasible selections that were not started, or twice", missing, 0)
    # The starts are those of the cones, to the rounding of the solutions.
    yield at_most("largest ‖p(0)/R − p^mm‖ over the tilt", table.tilt.max(), 1.001)
    gap = float(table.gap.max())
    yield at_most("largest certified gap", gap, norm_of("frobenius").tolerance)
    yield info("locally optimal: least growth of the part along p^mm, times", yes.grown.min())
    yield info("locally optimal: largest radius R", yes.radius.max())
    for share in smaller:
        predicted = yes[f"stayed_{share}"].sum() + (~no[f"stayed_{share}"]).sum()
        yield info(f"share as predicted at {share} R", predicted / max(len(yes) + len(no), 1))
    yield info("derived cone, median, degrees", yes.edge.median())
    yield info("derived cone, least, degrees", yes.edge.min())
    angles = [0.0, *map(float, _numbers(table, "returned_"))]
    for name, back in _kinds(table).items():
        # Of each optimum the largest angle up to which every direction came back, 0 for none.
        good = np.logical_and.accumulate(back == 1, axis=1).sum(axis=1)
        cones = np.array(angles)[good]
        yield info(f"{name}: measured cone, median, degrees", float(np.median(cones)))
        yield info(f"{name}: measured cone, least, degrees", cones.min())
    yield Premises(
        len(yes) + len(no),
        f"{len(different)} random instances: {len(yes)} feasible selections are locally optimal, "
        f"{len(no)} are not, {len(table) - len(yes) - len(no)} are undecided and not judged",
        gap,
    )


def figure(table: DataFrame, study: Study) -> Figure:
    """Where the starts near each direction end, and from how far descent comes back."""
    from attsvm.plotting.studies import CYCLE, level, panels

    drawn, (left, right) = panels(2)
    for word, colour, name in (("no", CYCLE[1], "not locally optimal"),
                               ("yes", CYCLE[0], "locally optimal")):  # fmt: skip
        away = np.sort(table.away[table.local == word].clip(lower=1e-16))
        left.plot(away, np.linspace(0, 1, len(away)), ".-", color=colour,
                  label=f"{name} ({len(away)})")  # fmt: skip
    left.set(xscale="log", xlabel="1 − cosine to the own direction, at the end",
             ylabel="share of selections below", title="Where starts beside it end")  # fmt: skip
    left.legend(frameon=False, loc="upper left")
    angles = [float(a) for a in _numbers(table, "returned_")]
    for j, (name, back) in enumerate(_kinds(table).items()):
        right.plot(angles, back.mean(axis=0), "o-", color=CYCLE[2 + j], label=name)
    level(right, 1.0)
    right.set(xlabel="angle of the start to the direction, degrees", ylim=(0, 1.05),
              ylabel="share of random directions that return", title="Cones")  # fmt: skip
    right.legend(frameon=False, loc="upper right")
    return drawn


STUDY = Study(
    id="A.local-if-and-only-if",
    title="Exactly the locally optimal tokens hold the descent",
    kind="theorem",
    source="paper",
    statement="Descent on the prompt, started at a large multiple of the max-margin direction of a "
    "selection and inside a cone around it, keeps the selection and its direction exactly when the "
    "selection is locally optimal: no tight neighbour of a kept token has a higher score. That it "
    "stays there is paper B's Theorem 7 (v1) with one common query; cone and radius are derived "
    "here from the slack of the better-scoring tokens. The converse is Theorem 4 of this paper, "
    "read where B cites it (v1, p. 12): local regularization paths can only converge to locally "
    "optimal directions, for almost all data. Ours is on descent and so says more.",
    family=prompts,
    grid={"n T d": [(2, 4, 4), (3, 3, 5)]},
    run={
        "margin": 1000.0,
        "pull": 0.01,
        "shares": [0.01, 0.1, 1.0],
        "tilt": 1e-3,
        "pace": 0.002,
        "steps": 5000,
        "directions": 8,
        "angles": [1.0, 3.0, 10.0, 20.0, 30.0, 45.0, 60.0, 75.0, 90.0, 120.0],
    },
    seeds=20,
    group=5,
    measure=measure,
    checks=checks,
    quick={"seeds": 3, "run": {"directions": 3, "angles": [3.0, 30.0, 90.0]}},
    figure=figure,
    reference="tarzanagh2023maxmargin",
    theorem="B v1, Theorem 7; Theorem 4 as cited in B v1",
)

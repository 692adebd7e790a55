"""A: descent started near a max-margin direction stays there exactly at locally optimal tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.group import Group, selected_by
from attsvm.experiments.studies.shared.local_cones import cone, descend, parts, steps_needed
from attsvm.experiments.studies.shared.prompt_paths import prompts
from attsvm.experiments.study import Found, Premises, Study, Table, at_least, at_most, equals, info
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima


def measure(group: Group, margin: float, pull: float, tilt: float, pace: float, steps: int) -> Any:
    """A row for each feasible selection, started from the edge of its cone.

    feasible: how many selections of the instance are; edge: angle of the derived cone in degrees,
    radius its R; tilt: distance of the start over what is asked; grown: of the part along p^mm;
    kept, stayed: whether the tokens, and the direction too, are kept.
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
    start = R * (W + lean * noise / np.linalg.norm(noise, axis=1, keepdims=True))
    count = steps_needed(cones, W, most=steps)
    end = descend(stack, start, lr=(rate * R)[:, 0], steps=count, model="prompt")[1][-1]
    kept = np.array([
        (selected_by(t, p[:, None]) == c).all()
        for (t, _), p, c in zip(stack, end, choice, strict=True)
    ])  # fmt: skip
    runs = zip(cones, start, end, W, strict=True)
    return {
        "seed": np.array(group.seeds)[owner],
        "selection": np.array([" ".join(map(str, c)) for c in choice]),
        "feasible": counts[owner],
        "local": np.array([_WORDS[local] for _, _, local in listed]),
        "radius": R[:, 0],
        "edge": np.degrees(np.arctan(lean[:, 0] / size)),
        "tilt": np.linalg.norm(start / R - W, axis=1) / lean[:, 0],
        "gap": np.array([float(c.gap) for c in best]),
        "kept": kept,
        "stayed": kept & np.array([c.holds(p0, p, best=w) for c, p0, p, w in runs]),
        "away": np.maximum(1 - (end * W).sum(axis=1) / np.linalg.norm(end, axis=1) / size, 1e-16),
        "grown": np.array([parts(p, w)[0] for p, w in zip(end, W, strict=True)]) / R[:, 0],
    }


_WORDS = {True: "yes", False: "no", None: "undecided"}


def _verdicts(tokens: Any, v: Floats) -> dict[tuple[int, ...], bool | None]:
    """Every feasible selection, and whether it is locally optimal; None: undecided."""
    found = local_optima(tokens, v)
    known = {choice: verdict.locally for choice, verdict in found.local}
    return {c: known.get(c, False) for c in (tuple(map(int, row)) for row in found.choices)}


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """Locally optimal selections are kept from the edges of their cones, and no others."""
    yes, no = (table[table.local == word] for word in ("yes", "no"))
    yield equals("locally optimal: stayed, from the edge of the cone", yes.stayed.sum(), len(yes))
    yield equals("not locally optimal: stayed", no.stayed.sum(), 0)
    yield equals("not locally optimal: tokens kept to the end", no.kept.sum(), 0)
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
    yield info("derived cone, least, degrees", yes.edge.min())
    yield Premises(
        len(yes) + len(no),
        f"{len(different)} random instances: {len(yes)} feasible selections are locally optimal, "
        f"{len(no)} are not, {len(table) - len(yes) - len(no)} are undecided and not judged",
        gap,
    )


STUDY = Study(
    id="A.local-if-and-only-if",
    title="Exactly the locally optimal tokens hold the descent",
    kind="theorem",
    source="paper",
    statement="Descent on the prompt, started at a large multiple of the max-margin direction of a "
    "selection and inside a cone around it, keeps the selection and its direction exactly when the "
    "selection is locally optimal: no tight neighbour of a kept token has a higher score. That it "
    "stays is paper B's Theorem 7 (v1) with one common query; cone and radius are derived here "
    "from the slack of the better-scoring tokens. The converse is Theorem 4 of this paper, read "
    "where B cites it (v1, p. 12), on regularization paths; ours is on descent.",
    family=prompts,
    grid={"n T d": [(2, 4, 4), (3, 3, 5)]},
    run={
        "margin": 1000.0,
        "pull": 0.01,
        "tilt": 1e-3,
        "pace": 0.002,
        "steps": 5000,
    },
    seeds=20,
    group=5,
    measure=measure,
    checks=checks,
    quick={"seeds": 3},
    figure={
        "kind": "histogram",
        "value": "away",
        "lines": "local",
        "log": True,
        "xlabel": "1 − cosine to the own direction, at the end (lines: locally optimal)",
        "ylabel": "selections",
    },
    reference="tarzanagh2023maxmargin",
    theorem="B v1, Theorem 7; Theorem 4 as cited in B v1",
)

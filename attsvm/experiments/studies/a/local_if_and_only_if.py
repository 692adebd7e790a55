"""A: descent started near a max-margin direction stays there exactly at locally optimal tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.datasets.instances import sphere_arrays
from attsvm.experiments.studies.b.local_if_and_only_if import (
    LocalCone,
    cone,
    descend,
    parts,
    steps_needed,
)
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    at_least,
    at_most,
    equals,
    noted,
)
from attsvm.experiments.studies.shared.proof import (
    recertified,
    saved_solutions,
    selected,
    worst_gap,
)
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A start of any angle that ends this near its direction, with its tokens leading, has returned:
# 2.6 degrees, below the second angle of the cones.
_NEAR = 0.999


def _draw(size: list[int], seed: int) -> tuple[Tokens, Floats]:
    n, T, d = size
    arrays = sphere_arrays(n, T, d, seed=seed)
    return Tokens(arrays["X"], labels=arrays["y"]), arrays["v"]


def _verdicts(size: list[int], seed: int) -> dict[tuple[int, ...], bool | None]:
    """Every feasible selection, and whether it is locally optimal; None: undecided."""
    tokens, v = _draw(size, seed)
    found = local_optima(tokens, v)
    known = {choice: verdict.locally for choice, verdict in found.local}
    return {c: known.get(c, False) for c in (tuple(map(int, row)) for row in found.choices)}


def _problems(size: list[int], owner: Floats, choice: Floats) -> list[Problem]:
    """The problem of each selection (K, n) in the instance of its seed (K,)."""
    drawn = {int(s): _draw(size, int(s))[0] for s in set(owner.tolist())}
    pairs = [(drawn[int(s)], c) for s, c in zip(owner, choice, strict=True)]
    return [Problem.of(tokens, Selection.of(tokens, c)) for tokens, c in pairs]


def _cones(
    config: Config,
    size: list[int],
    listed: list[tuple[int, tuple[int, ...], bool | None]],
    best: Sequence[Certificate],
) -> list[LocalCone]:
    """The Cone of each selection (seed, choice, verdict)."""
    drawn = {s: _draw(size, s) for s in config["seeds"]}
    return [
        cone(*drawn[s], choice=np.array(c), best=found, config=config, local=local is True)
        for (s, c, local), found in zip(listed, best, strict=True)
    ]


def run(config: Config) -> Result:
    """All feasible selections, started near their directions at several radii; wider starts."""
    out: Result = {}
    for g, size in enumerate(config["sizes"]):
        listed = [(s, c, local) for s in config["seeds"] for c, local in _verdicts(size, s).items()]
        owner = np.array([s for s, _, _ in listed])
        choice = np.array([c for _, c, _ in listed])
        best = solve_many(_problems(size, owner, choice))
        W = np.stack([np.asarray(c.require().W)[:, 0] for c in best])
        cones = _cones(config, size, listed, best)
        R, tilt, pace = (
            np.array([[getattr(c, name)] for c in cones]) for name in ("radius", "tilt", "pace")
        )
        steps = steps_needed(cones, W, most=config["steps"])
        stream = np.random.default_rng([g, 7])
        near = R * (W + tilt * _unit(stream.standard_normal(W.shape)))
        stack = [_draw(size, int(s)) for s in owner]
        out |= {f"{g}.owner": owner, f"{g}.choice": choice, **saved_solutions(f"{g}.best", best)}
        out[f"{g}.start"] = np.stack([share * near for share in config["shares"]])
        out[f"{g}.end"] = np.stack(
            [
                descend(
                    stack, share * near, lr=share * (pace * R)[:, 0], steps=steps, model="prompt"
                )[1][-1]
                for share in config["shares"]
            ]
        )
        local = np.array([k for k, (_, _, verdict) in enumerate(listed) if verdict])
        unit = _unit(W[local])[:, None]
        side = stream.standard_normal((len(local), config["directions"], W.shape[1]))
        side = _unit(side - (side * unit).sum(axis=2, keepdims=True) * unit)
        angle = np.radians(config["angles"])[:, None, None, None]
        far = (R[local] * np.linalg.norm(W[local], axis=1, keepdims=True))[:, None]
        wide = far * (np.cos(angle) * unit + np.sin(angle) * side)
        which = np.broadcast_to(local[None, :, None], wide.shape[:3]).ravel()
        _, ends = descend(
            [stack[k] for k in which],
            wide.reshape(-1, W.shape[1]),
            lr=(pace * R)[which, 0],
            steps=np.full(len(which), config["steps"]),
            model="prompt",
        )
        out |= {f"{g}.local": local, f"{g}.cone": wide, f"{g}.return": ends.reshape(wide.shape)}
    return out


def _unit(x: Floats) -> Floats:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _returns(config: Config, result: Result) -> dict[str, Floats]:
    """Whether each start of a cone came back, (A, L·D) by kind of optimum."""
    rows: dict[str, list[Floats]] = {"best tokens": [], "other locally optimal tokens": []}
    for g, size in enumerate(config["sizes"]):
        owner, choice, local = (result[f"{g}.{name}"] for name in ("owner", "choice", "local"))
        W = result[f"{g}.best.W"][:, :, 0]
        for place, k in enumerate(local):
            tokens, v = _draw(size, int(owner[k]))
            ends = result[f"{g}.return"][:, place]
            cosines = ends @ W[k] / np.linalg.norm(ends, axis=2) / np.linalg.norm(W[k])
            right = np.array(
                [
                    [bool((selected(tokens, p[:, None]) == choice[k]).all()) for p in row]
                    for row in ends
                ]
            )
            first = bool((Selection.best(tokens, v).indices == choice[k]).all())
            name = "best tokens" if first else "other locally optimal tokens"
            rows[name].append(right & (cosines >= _NEAR))
    return {name: np.array(part) for name, part in rows.items() if part}


def check(config: Config, result: Result) -> Finding:
    """Verdicts and cones are computed again from the data, and who stayed from the weights."""
    shares = config["shares"]
    stayed, kept_on = np.zeros((2, len(shares))), np.zeros(len(shares))
    count, missing, doubtful, far = np.zeros(2, dtype=int), 0, 0, 0.0
    gaps: list[float] = [0.0]
    radii, edges, grown = [], [], []
    for g, size in enumerate(config["sizes"]):
        owner, choice = result[f"{g}.owner"], result[f"{g}.choice"]
        best = recertified(f"{g}.best", _problems(size, owner, choice), "frobenius", result)
        gaps.append(worst_gap(best))
        pairs = [(int(s), tuple(map(int, c))) for s, c in zip(owner, choice, strict=True)]
        known = {s: _verdicts(size, s) for s in config["seeds"]}
        missing += sum((s, c) not in set(pairs) for s, part in known.items() for c in part)
        missing += len(owner) - len(set(pairs))
        listed = [(s, c, known[s].get(c)) for s, c in pairs]
        W = result[f"{g}.best.W"][:, :, 0]
        for k, at in enumerate(_cones(config, size, listed, best)):
            tokens, verdict = _draw(size, int(owner[k]))[0], listed[k][2]
            if verdict is None:
                doubtful += 1
                continue
            count[int(verdict)] += 1
            if verdict:
                radii.append(at.radius)
                edges.append(np.degrees(np.arctan(at.tilt / np.linalg.norm(W[k]))))
                grown.append(parts(result[f"{g}.end"][-1, k], W[k])[0] / at.radius)
            for r, share in enumerate(shares):
                start, end = result[f"{g}.start"][r, k], result[f"{g}.end"][r, k]
                off = float(np.linalg.norm(start / (share * at.radius) - W[k]))
                far = max(far, off / at.tilt)
                holds = bool((selected(tokens, end[:, None]) == choice[k]).all())
                scaled = replace(at, radius=share * at.radius)
                stayed[int(verdict), r] += holds and scaled.holds(start, end, best=W[k])
                kept_on[r] += holds and not verdict
    tests = [
        equals("locally optimal: stayed, from the edge of the cone", stayed[1, -1], count[1]),
        equals("not locally optimal: stayed", stayed[0, -1], 0),
        equals("not locally optimal: tokens kept to the end", kept_on[-1], 0),
        at_least("locally optimal selections judged", count[1], 1),
        at_least("other selections judged", count[0], 1),
        equals("feasible selections that were not started, or twice", missing, 0),
        # The starts on file are those of the cones, to the rounding of the solutions.
        at_most("largest ‖p(0)/R − p^mm‖ over the tilt", far, 1.001),
        at_most("largest certified gap", max(gaps), norm_of("frobenius").tolerance),
        noted("locally optimal: least growth of the part along p^mm, times", min(grown, default=0)),
        noted("locally optimal: largest radius R", max(radii, default=0)),
    ]
    for r, share in enumerate(shares[:-1]):
        tests.append(
            noted(
                f"share as predicted at {share:g} R",
                float((stayed[1, r] + count[0] - stayed[0, r]) / max(count.sum(), 1)),
            )
        )
    tests += [
        noted("derived cone, median, degrees", float(np.median(edges)) if edges else np.nan),
        noted("derived cone, least, degrees", min(edges, default=np.nan)),
    ]
    angles = np.array(config["angles"])
    for name, back in _returns(config, result).items():
        # Of each optimum the largest angle up to which every direction came back, 0 for none.
        good = np.logical_and.accumulate(back.all(axis=2), axis=1).sum(axis=1)
        cones = np.concatenate([[0.0], angles])[good]
        tests += [
            noted(f"{name}: measured cone, median, degrees", float(np.median(cones))),
            noted(f"{name}: measured cone, least, degrees", float(cones.min())),
        ]
    premises = (
        f"{len(config['sizes']) * len(config['seeds'])} random instances: {count[1]} feasible "
        f"selections are locally optimal, {count[0]} are not, {doubtful} are undecided and not "
        "judged"
    )
    return Finding(tuple(tests), premises, int(count.sum()), max(gaps))


def plot(config: Config, result: Result) -> Figure:
    """Where the starts near each direction end, and from how far descent comes back."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, level, panels

    figure, (left, right) = panels(2)
    away: tuple[list[float], list[float]] = ([], [])
    for g, size in enumerate(config["sizes"]):
        verdicts = {s: _verdicts(size, s) for s in config["seeds"]}
        W, ends = result[f"{g}.best.W"][:, :, 0], result[f"{g}.end"][-1]
        cosines = (ends * W).sum(axis=1) / np.linalg.norm(ends, axis=1) / np.linalg.norm(W, axis=1)
        for k, value in enumerate(1 - cosines):
            verdict = verdicts[int(result[f"{g}.owner"][k])][
                tuple(map(int, result[f"{g}.choice"][k]))
            ]
            if verdict is not None:
                away[int(verdict)].append(max(float(value), 1e-16))
    names = ("not locally optimal", "locally optimal")
    for values, colour, name in zip(away, (CYCLE[1], CYCLE[0]), names, strict=True):
        label = f"{name} ({len(values)})"
        left.plot(np.sort(values), np.linspace(0, 1, len(values)), ".-", color=colour, label=label)
    left.set(
        xscale="log",
        xlabel="1 − cosine to the own direction, at the end",
        ylabel="share of selections below",
        title="Where starts beside it end",
    )
    left.legend(frameon=False, loc="upper left")
    for j, (name, back) in enumerate(_returns(config, result).items()):
        right.plot(config["angles"], back.mean(axis=(0, 2)), "o-", color=CYCLE[2 + j], label=name)
    level(right, 1.0)
    right.set(
        xlabel="angle of the start to the direction, degrees",
        ylim=(0, 1.05),
        ylabel="share of random directions that return",
        title="Cones",
    )
    right.legend(frameon=False, loc="upper right")
    return figure


_FULL = {
    "sizes": [[2, 4, 4], [3, 3, 5]],
    "seeds": list(range(20)),
    "margin": 1000.0,
    "pull": 0.01,
    "shares": [0.01, 0.1, 1.0],
    "tilt": 1e-3,
    "pace": 0.002,
    "steps": 5000,
    "directions": 8,
    "angles": [1.0, 3.0, 10.0, 20.0, 30.0, 45.0, 60.0, 75.0, 90.0, 120.0],
}

CLAIM = Claim(
    id="A.local-if-and-only-if",
    title="Exactly the locally optimal tokens hold the descent",
    kind="theorem",
    trust="read",
    statement="Descent on the prompt, started at a large multiple of the max-margin direction of a "
    "selection and inside a cone around it, keeps the selection and its direction exactly when the "
    "selection is locally optimal: no tight neighbour of a kept token has a higher score. That it "
    "stays there is paper B's Theorem 7 (v1) with one common query; cone and radius are derived "
    "here from the slack of the better-scoring tokens. The converse is Theorem 4 of this paper, "
    "read where B cites it (v1, p. 12): local regularization paths can only converge to locally "
    "optimal directions, for almost all data. Ours is on descent and so says more.",
    full=_FULL,
    quick={**_FULL, "seeds": [0, 2, 4], "directions": 3, "angles": [3.0, 30.0, 90.0]},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023maxmargin",
    numbered="B v1, Theorem 7; Theorem 4 as cited in B v1",
)

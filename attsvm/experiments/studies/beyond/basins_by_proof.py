"""Beyond: which starts are proved to be held by their tokens, beside those that training holds.

Starts R u: u goes round a plane, R up to a million. Each is looked at twice: by a proof at step 0,
and, up to the largest R that the steps can turn, by training from there. As R grows along u, W =
ρŴ + ρp, the theorems of docs/convergence.md prove every direction with room to spare in
inequalities that hold no R any more; those of `limit_room` in claims/shared/start_planes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.longer_walks import walk_on
from attsvm.experiments.studies.shared.mirror_runs import thinned
from attsvm.experiments.studies.shared.proof import selected
from attsvm.experiments.studies.shared.start_planes import PlanePoint, limit_room
from attsvm.norms import norm_of
from attsvm.theory.optima import Optimality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("plane", "slice")
# Records of each run that are kept.
_KEPT = 6
# A direction with this much room is proved at a norm of a million: e^(−ρ · room) is nothing there.
_ROOM = 0.01


def places(config: Config) -> dict[str, PlanePoint]:
    """The instances by name."""
    return {
        f"{k} {seed}": PlanePoint.of(config, k, seed) for k in KINDS for seed in seeds_of(config)
    }


def run(config: Config) -> Result:
    """Which starts are proved, and where training from each of them goes."""
    out: Result = {}
    norms = [*config["norms"], *config["beyond"]]
    for name, here in places(config).items():
        proved = [here.judge.prove(W, explain=False).proved for W in here.starts(norms)]
        out[f"{name}.proved"] = np.array(proved, float).reshape(len(norms), here.angles)
        W = here.starts(config["norms"])
        prompt = here.tokens.queries.shape[1] == 1
        path = train(
            [here.tokens] * len(W),
            model="prompt" if prompt else "weight",
            head=here.v,
            lr=config["lr"],
            steps=config["steps"],
            init={"p": W[:, :, 0]} if prompt else {"W": W},
        )
        out[f"{name}.W"] = path.matrices()[thinned(path.steps, _KEPT)]
    return out


@dataclass(frozen=True, eq=False)
class BasinMap:
    """What is seen of an instance: proved (R, A) at all norms; held (r, A): where training keeps
    the tokens of its start at all saved records; end (r, A, n): the tokens at its end; local (r,
    A): whether those are locally optimal; able (A,): whether the tokens of a direction are; room
    (A,) as in `limit_room`, −inf where they are not. best (A,), end_best (r, A): whether the tokens
    are those of the highest scores. gap: the largest certified one."""

    proved: Bools
    held: Bools
    end: Ints
    local: Bools
    able: Bools
    room: Floats
    best: Bools
    end_best: Bools
    gap: float


def seen_in(config: Config, name: str, here: PlanePoint, result: Result) -> BasinMap:
    """The Map of an instance."""
    W = result[f"{name}.W"]
    top = np.stack([[selected(here.tokens, M) for M in record] for record in W])
    shape = (len(config["norms"]), here.angles)
    known: dict[bytes, Optimality] = {}
    local = [here.verdict(alpha, known).locally is True for alpha in top[-1]]
    verdicts = [here.verdict(alpha, known) for alpha in here.tops]
    able = np.array([verdict.locally is True for verdict in verdicts])
    room = [
        limit_room(here, u, verdict) if verdict.locally else -np.inf
        for u, verdict in zip(here.directions, verdicts, strict=True)
    ]
    return BasinMap(
        result[f"{name}.proved"] > 0,
        (top == np.tile(here.tops, (shape[0], 1))).all(axis=(0, 2)).reshape(shape),
        top[-1].reshape(*shape, -1),
        np.array(local).reshape(shape),
        able,
        np.array(room),
        np.array([verdict.globally for verdict in verdicts]),
        np.array([here.verdict(alpha, known).globally for alpha in top[-1]]).reshape(shape),
        max(float(o.certificate.gap) for o in known.values() if o.locally),
    )


def _again(config: Config, here: PlanePoint, seen: BasinMap) -> tuple[int, int]:
    """Every third proof again, and longest steps from it: (not proved, that leave)."""
    norms = [*config["norms"], *config["beyond"]]
    which = seen.proved.ravel().nonzero()[0][::3]
    W = here.starts(norms)[which]
    proofs = [here.judge.prove(M, explain=False) for M in W]
    good = [k for k, proof in enumerate(proofs) if proof.proved]
    if not good:
        return len(which), 0
    walk = walk_on(
        [here.tokens] * len(good),
        np.tile(here.v, (len(good), 1)),
        W[good],
        np.array([proofs[k].longest_step for k in good]),
        steps=config["further"],
    )
    return len(which) - len(good), int((walk.least <= 0).sum())


def check(config: Config, result: Result) -> Finding:
    """No start that is proved ends elsewhere; the share proved against the norm, and its limit."""
    norms = [*config["norms"], *config["beyond"]]
    trained = len(config["norms"])
    maps: list[BasinMap] = []
    count = {"lost": 0, "left": 0, "unproved": 0, "later": 0}
    for name, here in places(config).items():
        seen = seen_in(config, name, here, result)
        lost, left = _again(config, here, seen)
        count["lost"] += lost
        count["left"] += left
        open_ = (seen.held & seen.local & ~seen.proved[:trained])[-1].nonzero()[0]
        ends = result[f"{name}.W"][-1][-here.angles :][open_]
        count["unproved"] += len(ends)
        count["later"] += sum(here.judge.prove(W, explain=False).proved for W in ends)
        maps.append(seen)
    proved = np.mean([m.proved for m in maps], axis=(0, 2))
    held = np.mean([m.held & m.local for m in maps], axis=(0, 2))
    wrong = sum(int((m.proved[:trained] & ~(m.held & m.local)).sum()) for m in maps)
    inside = [m.room > _ROOM for m in maps]
    missed = sum(int((i & ~m.proved[-1]).sum()) for i, m in zip(inside, maps, strict=True))
    able = [m.able for m in maps]
    strange = sum(int((m.proved & ~m.able).sum()) for m in maps)
    tests: list[Test] = [
        equals("starts that are proved and do not keep their tokens in training", wrong, 0),
        equals("proofs, every third, that do not come out again", count["lost"], 0),
        equals("of these, starts that leave in further longest steps", count["left"], 0),
        equals("directions with room that are not proved at the largest norm", missed, 0),
        at_most("largest fall of the directions proved from a norm to the next", _fall(maps),
                max(1.0, 0.02 * sum(m.able.size for m in maps))),
        at_least("share proved at the largest norm less that at norm 10",
                 proved[-1] - float(np.interp(1.0, np.log10(norms), proved)), 0.05),
        equals("directions proved whose tokens are not locally optimal", strange, 0),
        at_most("share proved at the largest norm less that of directions with room",
                proved[-1] - float(np.mean(inside)), 0.1),
        noted("share of directions with room", float(np.mean(inside))),
        noted("share of directions whose tokens are locally optimal", float(np.mean(able))),
        noted("share of ends, from the largest norm trained, that are not locally optimal",
              1 - float(np.mean([m.local[-1] for m in maps]))),
    ]  # fmt: skip
    for what, best in (("the best", True), ("other locally optimal", False)):
        ends = np.mean([((m.end_best == best) & m.local)[-1] for m in maps])
        known = np.mean([m.proved[trained - 1] & (m.best == best) for m in maps])
        tests += [
            noted(f"largest norm trained: share that ends at {what} tokens", float(ends)),
            noted(f"largest norm trained: share proved to end at {what} tokens", float(known)),
        ]
    tests += [
        noted("largest norm trained: directions held without a proof", count["unproved"]),
        noted("of these, directions proved at the end of training", count["later"]),
    ]
    for R, share in zip(norms, proved, strict=True):
        tests.append(noted(f"share proved at norm {R:g}", share))
    for R, share in zip(config["norms"], held, strict=True):
        tests.append(noted(f"share that training holds at norm {R:g}", share))
    total = sum(m.held.size for m in maps)
    sure = sum(int(m.proved[:trained].sum()) for m in maps)
    premises = (
        f"{total} starts round {len(maps)} planes are trained, {sure} of them proved at step 0"
    )
    gap = max(m.gap for m in maps)
    tests.append(at_most("largest certified gap", gap, norm_of("frobenius").tolerance))
    return Finding(tuple(tests), premises, sure, gap)


def _fall(maps: list[BasinMap]) -> int:
    """By how many directions, of all planes, fewer are proved at the next larger norm, at most."""
    counts = np.sum([m.proved.sum(axis=1) for m in maps], axis=0)
    return max(0, int(-np.diff(counts).min()))


def plot(config: Config, result: Result) -> Figure:
    """Where starts in one plane end, with those that are proved; and shares against the norm."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    name, here = next(iter(places(config).items()))
    _draw_map(left, config, here, seen_in(config, name, here, result))
    norms = [*config["norms"], *config["beyond"]]
    most = 0.0
    for k, kind in enumerate(KINDS):
        some = [(n, h) for n, h in places(config).items() if n.startswith(kind)]
        maps = [seen_in(config, n, h, result) for n, h in some]
        said = {"plane": "prompt, d = 2", "slice": "slice of W, n, T, d = {}, {}, {}"}[kind]
        said = said.format(*config["shape"])
        held = np.mean([m.held & m.local for m in maps], axis=(0, 2))
        proved = np.mean([m.proved for m in maps], axis=(0, 2))
        room = float(np.mean([m.room > 0 for m in maps]))
        right.semilogx(
            config["norms"], held, "o--", color=CYCLE[k], markersize=3.5, label=f"{said}: held"
        )
        right.semilogx(norms, proved, "s-", color=CYCLE[k], markersize=3.5, label=f"{said}: proved")
        right.axhline(room, color=CYCLE[k], linewidth=1, linestyle=":")
        most = max(most, held.max(), proved.max(), room)
    right.plot([], [], ":", color="#888888", label="directions with room: the limit proved")
    right.set(
        ylim=(0, min(1.02, 1.25 * most)),
        xlabel="norm of the start",
        ylabel="share of starts",
        title="Held by training, and proved to be",
    )
    right.legend(
        frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(0.0, -0.14), ncols=2
    )
    return figure


def _draw_map(axes: Any, config: Config, here: PlanePoint, seen: BasinMap) -> None:
    """Rings of starts, log-spaced, each coloured by the tokens at its end."""
    from matplotlib.patches import Patch, Wedge

    from attsvm.experiments.studies.shared.drawing import CYCLE

    radius = 1 + np.log10(config["norms"])
    edges = np.concatenate([[radius[0]], (radius[1:] + radius[:-1]) / 2, [radius[-1]]])
    edges[0] -= (radius[1] - radius[0]) / 2
    edges[-1] += (radius[-1] - radius[-2]) / 2
    ends = [tuple(end) for end in seen.end[seen.local].tolist()]
    names = sorted(set(ends), key=lambda end: -ends.count(end))[: len(CYCLE)]
    wide = 360 / here.angles
    for r in range(len(radius)):
        for k in range(here.angles):
            end = tuple(seen.end[r, k].tolist())
            known = bool(seen.local[r, k]) and end in names
            axes.add_patch(
                Wedge(
                    (0, 0),
                    edges[r + 1],
                    k * wide,
                    (k + 1) * wide,
                    width=edges[r + 1] - edges[r],
                    facecolor=CYCLE[names.index(end)] if known else "#bbbbbb",
                    alpha=0.95 if seen.proved[r, k] else 0.3,
                    edgecolor="white",
                    linewidth=0.4,
                )
            )
    top = edges[-1]
    for R in (1, 10, 100):
        axes.text(1 + np.log10(R), 0, f"{R}", fontsize=7.5, ha="center", va="center")
    axes.set(
        xlim=(-top, top),
        ylim=(-top, top),
        aspect="equal",
        xlabel="direction and norm (1, 10, 100) of the start",
        title="Where prompts end; dark: proved",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    named = [
        Patch(color=CYCLE[j], label=f"ends at tokens {', '.join(map(str, end))}")
        for j, end in enumerate(names)
    ]
    if not seen.local.all():
        named.append(Patch(color="#bbbbbb", label="not at locally optimal tokens"))
    axes.legend(
        handles=named, frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(0.0, -0.06)
    )


_FULL = {
    "seeds": 2,
    "first": 100,
    "shape": [3, 4, 4],
    "angles": 36,
    "norms": [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
    "beyond": [1e3, 1e4, 1e6],  # proofs alone
    "lr": 0.1,
    "steps": 10_000,
    "further": 300,
}

CLAIM = Claim(
    id="beyond.basins-by-proof",
    title="Basins by proof beside basins by experiment",
    kind="question",
    trust="measured",
    statement="No start that is proved at step 0 to be held by its tokens leaves them in training. "
    "Along a ray the share that is proved grows with the norm, not to 1 but to the share of "
    "directions that satisfy inequalities without a norm: others go to other tokens, or are held "
    "without a proof.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": 1,
        "angles": 12,
        "norms": [1.0, 10.0, 100.0],
        "beyond": [1e3, 1e6],
        "steps": 6000,
        "further": 50,
    },
    run=run,
    check=check,
    plot=plot,
)

"""B: with all margins tight and Assumption D, does every run end at the best tokens?

Assumption D: every other selection α has an input i with α_i ≠ opt_i whose best token is tight at
W^mm_α. No other selection is locally optimal then, so that no direction but W^mm holds runs that
start near it. Certified from the solutions of all T^n selections.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
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
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.experiments.studies.shared.random_instances import compact
from attsvm.experiments.studies.shared.stated_cone import lipschitz
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence.prover import Prover, prover
from attsvm.theory.landscape import all_tight

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIMIZERS = ("gd", "ngd")


@dataclass(frozen=True, eq=False)
class ConjectureInstance:
    """One instance with the certificates of all its selections (T^n), and what they prove.

    tight, pulled: Assumptions B.1 and D, None where the certificates do not decide. loose: how many
    wrong inputs of each selection do not have their best token tight.
    """

    tokens: Tokens
    v: Floats
    best: Ints
    found: list[Certificate]
    choices: list[tuple[int, ...]]
    tight: bool | None
    pulled: bool | None
    held: tuple[int, ...]
    loose: Ints


def _drawn(config: Config, d: int, seed: int) -> tuple[Tokens, Floats, list[Problem]]:
    n, T = config["size"]
    tokens, v = compact([n, T, d], seed)
    every = product(range(T), repeat=n)
    return tokens, v, [Problem.of(tokens, Selection.of(tokens, list(a))) for a in every]


def _instance(
    config: Config, drawn: tuple[Tokens, Floats, list[Problem]], found: list[Certificate]
) -> ConjectureInstance:
    """What the certificates of all selections prove of one instance."""
    n, T = config["size"]
    tokens, v, _ = drawn
    best = Selection.best(tokens, v).indices
    choices = list(product(range(T), repeat=n))
    tight: bool | None = None
    pulled: bool | None = True
    loose, held = np.zeros(len(choices), dtype=np.int64), []
    for k, (alpha, c) in enumerate(zip(choices, found, strict=True)):
        wrong = np.flatnonzero(np.array(alpha) != best)
        if not len(wrong):
            tight = all_tight(c)
            continue
        rows, known = c.problem.rows, c.tight
        own = [int(np.flatnonzero((rows[:, 0] == i) & (rows[:, 2] == best[i]))[0]) for i in wrong]
        loose[k] = int((~known.tight[own]).sum())
        if not known.tight[own].any():
            # Undecided rows leave the assumption open; certified loose ones break it.
            pulled = False if known.loose[own].all() else (None if pulled else pulled)
            if known.loose[own].all():
                held.append(k)
    return ConjectureInstance(tokens, v, best, found, choices, tight, pulled, tuple(held), loose)


def _instances(config: Config, d: int, found: list[Certificate]) -> list[ConjectureInstance]:
    """The instances of one dimension, from the certificates of all their selections in a row."""
    n, T = config["size"]
    each = T**n
    return [
        _instance(config, _drawn(config, d, seed), found[b * each : (b + 1) * each])
        for b, seed in enumerate(seeds_of(config))
    ]


def _inside(made: list[ConjectureInstance]) -> list[ConjectureInstance]:
    """Those with both assumptions certified."""
    return [one for one in made if one.tight is True and one.pulled is True]


def _without(made: list[ConjectureInstance]) -> list[ConjectureInstance]:
    """Those with all margins tight and D proved not to hold."""
    return [one for one in made if one.tight is True and one.pulled is False and one.held]


def _along(one: ConjectureInstance, k: int, far: float) -> Floats:
    """`far` times the max-margin W of another selection."""
    W = one.found[k].W
    return np.zeros(one.found[k].problem.shape) if W is None else far * np.asarray(W)


def _starts(config: Config, inside: list[ConjectureInstance], d: int) -> Floats:
    """Starts (s, B, d, dq): random ones of each size, then far out along other selections, those
    first that have the most wrong inputs without a tight best token."""
    draw = np.random.default_rng([config["start"], d])
    shape = inside[0].found[0].problem.shape
    out = [size * draw.standard_normal((len(inside), *shape)) for size in config["sizes"]]
    for rank in range(config["along"]):
        out.append(
            np.stack(
                [
                    _along(one, int(np.argsort(-one.loose, kind="stable")[rank]), config["far"])
                    for one in inside
                ]
            )
        )
    return np.stack(out)


def _step(inside: list[ConjectureInstance]) -> float:
    """1/L_W, the least over the instances."""
    return 1 / max(lipschitz(one.tokens, one.v) for one in inside)


def _descend(
    config: Config, optimizer: str, inside: list[ConjectureInstance], starts: Floats
) -> Floats:
    """The ends (s, B, d, dq) of runs from these starts."""
    s = len(starts)
    path = train(
        [one.tokens for _ in range(s) for one in inside],
        head=np.concatenate([np.stack([one.v for one in inside])] * s),
        optimizer=optimizer,
        lr=_step(inside) if optimizer == "gd" else config["lr"],
        steps=config[f"{optimizer}_steps"],
        init={"W": starts.reshape(-1, *starts.shape[2:])},
    )
    end: Floats = path.weights["W"][-1].reshape(starts.shape)
    return end


def run(config: Config) -> Result:
    """All selections of every instance; then plain and normalized runs where both assumptions hold,
    and runs along a selection that breaks D where only that one fails."""
    out: Result = {}
    for d in config["dimensions"]:
        drawn = [_drawn(config, d, seed) for seed in seeds_of(config)]
        found = solve_many([p for _, _, problems in drawn for p in problems])
        out |= saved_solutions(f"{d}.every", found)
        made = _instances(config, d, found)
        inside, without = _inside(made), _without(made)
        if inside:
            starts = _starts(config, inside, d)
            # Far out the plain steps are too short for any run to get anywhere.
            out[f"{d}.gd.W"] = _descend(config, "gd", inside, starts[: config["plain"]])
            out[f"{d}.ngd.W"] = _descend(config, "ngd", inside, starts)
        if without:
            starts = np.stack([_along(one, one.held[0], config["far"]) for one in without])[None]
            out[f"{d}.without.W"] = _descend(config, "ngd", without, starts)
    return out


def _prover(config: Config, optimizer: str, one: ConjectureInstance, step: float) -> Prover:
    return prover(
        one.tokens, head=one.v, optimizer=optimizer, lr=step if optimizer == "gd" else config["lr"]
    )


def check(config: Config, result: Result) -> Finding:
    """No run is proved to converge elsewhere, nearly all are to the best tokens."""
    proved, elsewhere, runs = ({optimizer: 0 for optimizer in OPTIMIZERS} for _ in range(3))
    shares: list[Test] = []
    judged = open_ = kept = alone = 0
    gaps: list[float] = []
    for d in config["dimensions"]:
        problems = [p for s in seeds_of(config) for p in _drawn(config, d, s)[2]]
        found = recertified(f"{d}.every", problems, "frobenius", result)
        made = _instances(config, d, found)
        inside, without = _inside(made), _without(made)
        gaps += [worst_gap([c for c in one.found if c.status != "infeasible"]) for one in made]
        judged += len(inside)
        open_ += sum(one.tight is None or one.pulled is None for one in made)
        shares += [
            noted(f"d = {d}: share with all margins tight (B.1)", _share(made, "tight")),
            noted(f"d = {d}: share with Assumption D", _share(made, "pulled")),
        ]
        for optimizer in OPTIMIZERS if inside else ():
            W = result.get(f"{d}.{optimizer}.W", np.empty((1, 0)))
            if W.shape[1] != len(inside):  # not the runs of these instances
                runs[optimizer] += len(inside)
                continue
            for b, one in enumerate(inside):
                prove = _prover(config, optimizer, one, _step(inside))
                for end in W[:, b]:
                    proof = prove.prove(end, explain=False)
                    right = bool((proof.selection == one.best).all())
                    runs[optimizer] += 1
                    proved[optimizer] += proof.proved and right
                    elsewhere[optimizer] += proof.proved and not right
        ends = result.get(f"{d}.without.W", np.empty((1, 0)))[0]
        for one, end in zip(without, ends, strict=False):
            proof = _prover(config, "ngd", one, 1.0).prove(end, explain=False)
            alone += 1
            kept += proof.proved and not bool((proof.selection == one.best).all())
    tests = [
        equals("runs proved to converge to other tokens", sum(elsewhere.values()), 0),
        # A run can sit for thousands of steps at tokens that it leaves later: one in a hundred may
        # still be there.
        at_least(
            "normalized runs proved to converge to the best tokens, share",
            proved["ngd"] / max(runs["ngd"], 1),
            0.99,
        ),
        # Plain steps shrink with the gradient: what starts on other tokens may still be there.
        at_least(
            "plain runs, η ≤ 1/L_W, proved to converge to the best tokens, share",
            proved["gd"] / max(runs["gd"], 1),
            0.8,
        ),
        noted("normalized runs not proved, of all", runs["ngd"] - proved["ngd"]),
        noted("normalized runs", runs["ngd"]),
        noted("plain runs", runs["gd"]),
        *shares,
        noted("B.1 without D: runs along a selection that breaks D", alone),
        noted("of them proved to converge to other tokens", kept),
        at_most("largest certified gap", max(gaps, default=0.0), norm_of("frobenius").tolerance),
    ]
    total = len(config["dimensions"]) * len(seeds_of(config))
    premises = (
        f"{judged} of {total} instances have B.1 and D, certified from all their selections; "
        f"{open_} are open; {len(config['sizes']) + config['along']} starts each"
    )
    reason = "" if judged else "no instance is inside the assumptions"
    return Finding(tuple(tests), premises, judged, max(gaps, default=0.0), reason)


def _share(made: list[ConjectureInstance], name: str) -> float:
    return float(np.mean([getattr(one, name) is True for one in made]))


def plot(config: Config, result: Result) -> Figure:
    """The shares of the assumptions over d, and 1 − correlation at the ends of the runs."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    dims = config["dimensions"]
    away: dict[str, list[float]] = {optimizer: [] for optimizer in OPTIMIZERS}
    shares: dict[str, list[float]] = {"B.1": [], "D": [], "B.1 and D": []}
    for d in dims:
        problems = [p for s in seeds_of(config) for p in _drawn(config, d, s)[2]]
        made = _instances(config, d, recertified(f"{d}.every", problems, "frobenius", result))
        inside = _inside(made)
        shares["B.1"].append(_share(made, "tight"))
        shares["D"].append(_share(made, "pulled"))
        shares["B.1 and D"].append(len(inside) / len(made))
        for optimizer in OPTIMIZERS if inside else ():
            for b, one in enumerate(inside):
                best = np.asarray(one.found[one.choices.index(tuple(one.best.tolist()))].W)
                W = result[f"{d}.{optimizer}.W"][:, b]
                size = np.linalg.norm(W, axis=(1, 2)) * np.linalg.norm(best)
                away[optimizer] += (1 - np.einsum("sij,ij->s", W, best) / size).tolist()
    for k, (name, values) in enumerate(shares.items()):
        left.plot(dims, values, "o-", markersize=4, color=CYCLE[k], label=name)
    n, T = config["size"]
    text = (T + n) * np.log(T + n)
    left.axvline(text, color=CYCLE[6], linestyle=":", linewidth=1, label="(T + n) log(T + n)")
    left.set(
        xlabel="d",
        ylabel="share of instances",
        ylim=(0.0, 1.04),
        title=f"Assumptions, n = {n}, T = {T}",
    )
    left.set_xticks(dims)
    left.legend(frameon=False, fontsize=7.5, loc="lower right")
    names = {"gd": "plain, η ≤ 1/L", "ngd": "normalized"}
    for k, optimizer in enumerate(OPTIMIZERS):
        ends = np.sort(np.maximum(away[optimizer], 1e-12))
        if len(ends):
            right.plot(ends, np.linspace(0, 1, len(ends)), color=CYCLE[k], label=names[optimizer])
    right.set(
        xscale="log",
        xlabel="1 − correlation to W^mm at the end",
        ylabel="share of runs below",
        title="Runs where both assumptions hold",
    )
    right.legend(frameon=False, fontsize=7.5, loc="upper left")
    return figure


_FULL = {
    "size": [3, 3],
    "dimensions": [4, 6, 11, 22],
    "seeds": 20,
    "start": 0,
    "sizes": [0.1, 0.5, 3.0],
    "plain": 2,
    "along": 8,
    "far": 10.0,
    "lr": 0.1,
    "gd_steps": 30_000,
    "ngd_steps": 15_000,
}

CLAIM = Claim(
    id="B.conjecture",
    title="All margins tight and Assumption D: the best tokens from every start?",
    kind="question",
    trust="read",
    statement="A conjecture: with all margins tight (B.1), Assumption D and unique best tokens, "
    "gradient descent on W with a proper constant step tends to the max-margin direction of the "
    "best tokens, for almost all data. Tested on instances with both assumptions certified, from "
    "random starts and from far out along other selections.",
    full=_FULL,
    quick={**_FULL, "dimensions": [6, 22], "seeds": 5, "along": 3, "ngd_steps": 5000},
    run=run,
    check=check,
    plot=plot,
    reference="tarzanagh2023svm",
    numbered="v1, section 5.2",
)

"""Beyond: how often and when a run is proved to converge, by its size, step and optimizer.

A run is proved from one W on: docs/convergence.md. Runs start from N(0, 1) and are looked at on a
grid of records, about 15 % apart; the first that has a proof is found by halving. What is asked was
fixed by the theorems and by earlier runs on other draws (docs/convergence-evidence.md).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats, Ints
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
)
from attsvm.experiments.studies.shared.first_proofs import (
    BEFORE,
    FIRST,
    LAST,
    LATER,
    DrawnRuns,
    ProofCell,
    first_proved,
)
from attsvm.experiments.studies.shared.longer_walks import walk_on
from attsvm.experiments.studies.shared.mirror_runs import norm_name, problems
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, selected
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.optima import score_gaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Proved runs of so many, within so many steps, on other draws.
EARLIER = {
    "6x8x10 ngd 0.1": (100, 100, 6000),
    "20x5x12 ngd 0.1": (84, 100, 6000),
    "6x8x10 gd 50": (45, 100, 60_000),
    "6x8x10 nmirror:1.75 0.1": (12, 12, 7500),
}
# The median norm at the first proof on other draws, ngd 0.1.
MEDIANS = {"2x3x3": 14.0, "3x4x4": 26.0, "6x8x10": 52.7, "10x10x15": 123.0, "20x5x12": 183.0}


def cells(config: Config) -> list[ProofCell]:
    """Normalized descent on every size; plain and mirror descent on one."""
    one = tuple(config["one_size"])
    out = [
        ProofCell(tuple(shape), "ngd", float(lr), steps)
        for shape in config["sizes"]
        for lr, steps in config["steps"].items()
    ]
    out += [ProofCell(one, "gd", float(lr), steps) for lr, steps in config["plain"].items()]
    return out + [
        ProofCell(one, f"nmirror:{p}", 0.1, steps) for p, steps in config["mirror"].items()
    ]


def run(config: Config) -> Result:
    """The runs of every cell: four records of each, and the solutions at its last tokens."""
    out: Result = {}
    for cell in cells(config):
        drawn = DrawnRuns.of(config, cell)
        steps, W = drawn.trained()
        every = range(len(drawn.tokens))
        found = [first_proved(drawn.judge(b), W[:, b]) for b in every]
        places = np.stack([place for place, _ in found], axis=1)
        proved = np.array([int(proved) for _, proved in found])
        kept = np.stack([W[place, every] for place in places])
        out |= {f"{cell}.at": steps[places], f"{cell}.W": kept, f"{cell}.proved": proved}
        solved = solve_many(problems(drawn.tokens, kept[LAST]), norm_name(f"{cell.p:g}"))
        out |= saved_solutions(f"{cell}.best", solved)
    return out


@dataclass(eq=False)
class ProofValues:
    """What a cell's saved records show, run by run: the norm at the first proof (nan: none), its
    step, its theorem; the selection there; ρ times the least slack of a better token. gap, wide:
    the largest certified gap, and as a share of the norm's own tolerance."""

    norm: Floats
    step: Floats
    theorem: list[str]
    tokens: list[Ints]
    pressed: list[float] = field(default_factory=list)
    gap: float = 0.0
    wide: float = 0.0

    @property
    def proved(self) -> int:
        """How many runs are proved."""
        return int(np.isfinite(self.norm).sum())


def _angle(W: Floats, V: Floats) -> float:
    """The angle of two directions, without cancellation."""
    apart = float(np.linalg.norm(W / np.linalg.norm(W) - V / np.linalg.norm(V)))
    return float(2 * np.arcsin(min(apart / 2, 1.0)))


def _above(W: Floats, best: Certificate, bound: float) -> bool:
    """Whether 1 − corr(W, W^mm) is above the bound, W^mm within the certificate's own angle."""
    known = np.arccos(np.clip(best.lower / best.upper, -1, 1)) + 1e-12
    return _angle(W, np.asarray(best.W)) > 2 * np.arcsin(np.sqrt(min(bound, 2.0) / 2)) + known


def _pressed(tokens: Tokens, v: Floats, alpha: Ints, best: Certificate, norm: float) -> float:
    """‖W‖/N times the least slack, at the solution, of a token with a better score."""
    gaps, _ = score_gaps(tokens, alpha, v)
    rows = best.problem.rows
    better = gaps[rows[:, 0], rows[:, 2]] < 0
    return float(norm / best.upper * (best.margins[better] - 1).min(initial=np.inf))


def seen_in(config: Config, cell: ProofCell, result: Result, faults: Counter[str]) -> ProofValues:
    """What is seen of a cell; faults are counted by their names."""
    drawn = DrawnRuns.of(config, cell)
    at, W = result[f"{cell}.at"], result[f"{cell}.W"]
    B = len(drawn.tokens)
    best = recertified(
        f"{cell}.best", problems(drawn.tokens, W[LAST]), norm_name(f"{cell.p:g}"), result
    )
    out = ProofValues(np.full(B, np.nan), np.full(B, np.nan), [""] * B, [])
    proofs: dict[int, ConvergenceProof] = {}
    for b, t in enumerate(drawn.tokens):
        judge = drawn.judge(b)
        proof = judge.prove(np.ascontiguousarray(W[FIRST, b]), explain=False)
        out.tokens.append(selected(t, W[FIRST, b]))
        faults["again"] += bool(proof.proved) != bool(result[f"{cell}.proved"][b])
        if not proof.proved:
            continue
        proofs[b] = proof
        out.norm[b] = (np.abs(W[FIRST, b]) ** cell.p).sum() ** (1 / cell.p)
        out.step[b], out.theorem[b] = at[FIRST, b], str(proof.theorem)
        faults["refused"] += b % 3 == 0 and not proof.verify()
        if at[BEFORE, b] < at[FIRST, b]:
            before = judge.prove(np.ascontiguousarray(W[BEFORE, b]), explain=False)
            faults["earlier"] += before.proved
        if best[b].W is None:
            faults["uncertified"] += 1
            continue
        out.gap = max(out.gap, float(best[b].gap))
        out.wide = max(out.wide, float(best[b].gap) / best[b].norm.tolerance)
        for r in (LATER, LAST):
            faults["left"] += bool((selected(t, W[r, b]) != out.tokens[b]).any())
            bound = float(proof.bound(at[r, b] - at[FIRST, b]))
            faults["above"] += bool(np.isfinite(bound) and _above(W[r, b], best[b], bound))
        if cell.optimizer == "ngd":
            out.pressed.append(_pressed(t, drawn.heads[b], out.tokens[b], best[b], out.norm[b]))
    if proofs:
        _walked(config, drawn, proofs, best, faults)
    return out


def _walked(
    config: Config,
    drawn: DrawnRuns,
    proofs: dict[int, ConvergenceProof],
    best: list[Certificate],
    faults: Counter[str],
) -> None:
    """Further steps of the longest length that each proof allows, from its W."""
    which = list(proofs)
    walk = walk_on(
        [drawn.tokens[b] for b in which],
        drawn.heads[which],
        np.stack([proofs[b].W for b in which]),
        np.array([proofs[b].longest_step for b in which]),
        steps=config["further"],
        p=drawn.cell.p,
        plain=drawn.cell.optimizer == "gd",
    )
    faults["walked away"] += int((walk.least <= 0).sum())
    for j, b in enumerate(which):
        if proofs[b].theorem == "tube" and best[b].W is not None:
            V = np.asarray(best[b].W)
            rho = np.einsum("rxy,xy->r", walk.W[:, j], V) / (V**2).sum()
            for M, height in zip(walk.W[:, j], rho, strict=True):
                bound = proofs[b].constants["rate"] / height**2 * (1 + 1e-6)
                faults["walked above"] += _above(M, best[b], float(bound))


def as_few(few: int, of: int, earlier: int, of_earlier: int) -> float:
    """The chance of so few or fewer here if both shares were one (hypergeometric)."""
    every = comb(of + of_earlier, few + earlier)
    ways = (comb(of, k) * comb(of_earlier, few + earlier - k) for k in range(few + 1))
    return sum(ways) / every


_FAULTS = {
    "again": "saved proofs that do not come out again",
    "refused": "proofs, every third, that their own recheck refuses",
    "earlier": "runs that are proved one record earlier than said",
    "left": "saved records after a proof with another selection",
    "above": "saved records above a proved bound",
    "uncertified": "proved runs without a certified solution at their last tokens",
    "walked away": "proved runs that leave their selection in further steps of the longest length",
    "walked above": "records of these above a proved bound",
}


def check(config: Config, result: Result) -> Finding:
    """Every proof again; nothing proved has left; shares and norms beside the earlier ones."""
    faults: Counter[str] = Counter()
    seen = {str(cell): seen_in(config, cell, result, faults) for cell in cells(config)}
    tests = [equals(text, faults[name], 0) for name, text in _FAULTS.items()]
    for cell in cells(config):
        name, here = str(cell), seen[str(cell)]
        tests.append(noted(f"{name}: share proved in {cell.steps:,} steps", _share(here)))
        if name in EARLIER and cell.steps >= EARLIER[name][2]:
            chance = as_few(here.proved, len(here.norm), *EARLIER[name][:2])
            of = "{} of {}".format(*EARLIER[name])
            tests.append(at_least(f"{name}: chance of so few, were it {of}", chance, 1e-3))
        if cell.optimizer == "ngd" and cell.lr == 0.1:
            earlier = MEDIANS[cell.size]
            ratio = _median(here) / earlier
            what = f"{name}: factor between the median norm at the proof and {earlier:g}"
            tests.append(at_most(what, max(ratio, 1 / ratio), 2))
    tests += _law(config, seen)
    proved = [seen[str(cell)] for cell in cells(config)]
    by = Counter(word for here in proved for word in here.theorem if word)
    runs = sum(len(here.norm) for here in proved)
    premises = f"{runs} runs in {len(seen)} cells, {sum(by.values())} proved: " + ", ".join(
        f"{word} {count}" for word, count in by.most_common()
    )
    wide = max(here.wide for here in proved)
    tests.append(at_most("largest certified gap over the tolerance of its norm", wide, 1))
    gap = max(here.gap for here in proved)
    return Finding(tuple(tests), premises, sum(by.values()), gap)


def _share(seen: ProofValues) -> float:
    return seen.proved / len(seen.norm)


def _median(seen: ProofValues) -> float:
    """The median norm at the first proof; runs without one count as larger."""
    return float(np.median(np.where(np.isnan(seen.norm), np.inf, seen.norm)))


def _law(config: Config, seen: dict[str, ProofValues]) -> list[Test]:
    """When the proof comes: the step matters little until it is long, the nearest rival much."""
    short, long = [], []
    for shape in config["sizes"]:
        size = "x".join(map(str, shape))
        slow, usual, fast = (seen[f"{size} ngd {lr}"] for lr in ("0.02", "0.1", "1"))
        same = [(a == b).all() for a, b in zip(slow.tokens, usual.tokens, strict=True)]
        short += (slow.norm / usual.norm)[same].tolist()
        if list(shape) == list(config["one_size"]):
            long.append(_median(fast) / _median(usual))
    pressed = [
        x for n, s in seen.items() if " ngd " in n and not n.endswith(" 1") for x in s.pressed
    ]
    rivals = [x for x in pressed if np.isfinite(x)]
    middle = float(np.nanmedian(short))
    tests = [
        at_most(
            "factor between the norms at the proof, step 0.02 against 0.1, median",
            max(middle, 1 / middle),
            1.25,
        ),
        at_least("norm at the proof, step 1 over 0.1, one size, ratio of medians", long[0], 2),
        at_least("‖W‖ · slack of the nearest better token / N at the proof, median",
                 float(np.median(rivals)), 3),
        at_most("the same", float(np.median(rivals)), 12),
        noted("the same, least", min(rivals, default=np.nan)),
        noted("the same, largest", max(rivals, default=np.nan)),
        noted("share of these proved runs with a better token", len(rivals) / max(len(pressed), 1)),
    ]  # fmt: skip
    one = "x".join(map(str, config["one_size"]))
    if {"0", "50"} <= config["plain"].keys():
        gained = _share(seen[f"{one} gd 50"]) - _share(seen[f"{one} gd 1/L"])
        tests.append(
            at_least("plain descent: share proved at step 50 less that at 1/L", gained, 0.1)
        )
    return tests


def plot(config: Config, result: Result) -> Figure:
    """The share of runs proved against the norm, and the median norm against the step."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2)
    lengths = [float(lr) for lr in config["steps"]]
    for k, shape in enumerate(config["sizes"]):
        size = "x".join(map(str, shape))
        norms = [_norms(result, f"{size} ngd {lr:g}") for lr in lengths]
        name = f"n, T, d = {', '.join(map(str, shape))}"
        for lr, found in zip(lengths, norms, strict=True):
            if lr == 0.1:
                inside = np.sort(found[np.isfinite(found)])
                share = np.arange(1, len(inside) + 1) / len(found)
                left.step(
                    [inside[0], *inside],
                    [0, *share],
                    where="post",
                    color=CYCLE[k],
                    label=f"{name} ({len(inside)} of {len(found)})",
                )
        middle = np.array([np.median(found) for found in norms])
        right.loglog(lengths, middle, "o-", color=CYCLE[k], markersize=4, label=name)
        for lr, found in zip(lengths, norms, strict=True):
            most = found[np.isfinite(found)].max(initial=0.0)
            low, high = np.minimum(np.quantile(found, (0.25, 0.75), method="nearest"), most)
            right.plot([lr, lr], [low, high], color=CYCLE[k], linewidth=3, alpha=0.25)
    left.set(
        xscale="log",
        ylim=(0, 1.03),
        xlabel="‖W‖ (normalized descent, steps of 0.1)",
        ylabel="share of runs proved to converge",
        title="From which norm on a run is proved",
    )
    right.set(
        xlabel="length of a step",
        ylabel="‖W‖ at the first proof: median, middle half",
        title="Long steps are proved later",
    )
    left.legend(frameon=False, fontsize=7.5, loc="upper left", bbox_to_anchor=(0.0, -0.14), ncols=2)
    right.legend(frameon=False, fontsize=7.5, loc="upper left")
    return figure


def _norms(result: Result, name: str) -> Floats:
    """The norm at the first proof, inf without one."""
    norm = np.linalg.norm(result[f"{name}.W"][FIRST], axis=(1, 2))
    return np.where(result[f"{name}.proved"] > 0, norm, np.inf)


_FULL = {
    "seeds": 10,
    "first": 100,
    "start": 7,
    "sizes": [[2, 3, 3], [3, 4, 4], [6, 8, 10], [10, 10, 15], [20, 5, 12]],
    "steps": {"0.02": 30_000, "0.1": 6000, "1": 3000},  # normalized descent
    "one_size": [6, 8, 10],
    "plain": {"0": 20_000, "50": 60_000},  # 0: 1/L_W
    "mirror": {"1.75": 7500, "2.5": 2500},  # half of the seeds
    "further": 300,
}

CLAIM = Claim(
    id="beyond.proved-runs",
    title="How often and when a run is proved to converge",
    kind="question",
    trust="measured",
    statement="Normalized descent with short steps is proved to converge in nearly every run, at a "
    "norm that grows with the size of the instance and hardly depends on the step while it is "
    "short; long steps are proved later, plain descent less often. Where a better-scoring token is "
    "left behind, the norm over N times that token's slack is a few in the median, not in every "
    "run. No proved run leaves its tokens or its bound.",
    full=_FULL,
    quick={
        **_FULL,
        "seeds": 3,
        "sizes": [[2, 3, 3], [6, 8, 10]],
        "plain": {"50": 6000},
        "mirror": {"1.75": 1200},
        "further": 100,
    },
    run=run,
    check=check,
    plot=plot,
)

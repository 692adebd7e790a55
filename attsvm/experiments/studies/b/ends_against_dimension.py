"""B: where runs end against the dimension, and how often every margin is tight: v1, Figure 5."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.binomial import interval
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
from attsvm.experiments.studies.shared.published import EPS, plain_run
from attsvm.experiments.studies.shared.published_shares import (
    DIMENSIONS_5,
    FIGURE_5,
    INSTANCES,
    LEVEL,
    ShareCell,
    apart,
    listed,
    rise,
)
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.studies.shared.spaced_instances import (
    Spaced,
    picks,
    problems,
    spaced,
    weights_at,
)
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.landscape import all_tight
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NORMS = {"W": "frobenius", "KQ": "nuclear"}
TITLES = {"W": "Descent on W, Frobenius problem", "KQ": "Descent on K and Q, nuclear problem"}
ENDS = ("not local", "global", "local", "B.1")
# The published arithmetic of each family: what is added to a norm, and what to the loss.
PUBLISHED = {"W": "W+eps", "KQ": "KQ+ridge"}
# B.1 is declared when the average margin of the tokens that are not best is below this.
TIGHT = 1.1


def _drawn(config: Config, d: int) -> Spaced:
    return spaced((*config["size"], d), seeds_of(config), gap=config["gap"], start=config["start"])


def _descents(config: Config, d: int, drawn: Spaced) -> dict[str, Floats]:
    """The weights (R, B, ·, ·) of every run in this dimension, at the steps that are read."""
    read, lr = config["read"], config["lr"]
    out = {}
    for family in NORMS:
        path = train(drawn.stack, lr=lr, steps=read[-1], **drawn.how(family))
        out[family] = weights_at(path, read)
    if d in config["published"]:
        first, marks = drawn.weight["W"], np.array(read)
        out["W+eps"] = plain_run(drawn.stack, drawn.heads, first, lr=lr, marks=marks, eps=EPS)
        ridge = {"ridge": EPS}
        path = train(drawn.stack, lr=lr, steps=read[-1], **drawn.how("KQ"), options=ridge)
        out["KQ+ridge"] = weights_at(path, read)
    if d in config["long"]["dimensions"]:
        path = train(drawn.stack, lr=lr, steps=config["long"]["steps"], **drawn.how("W"))
        out["W, long"] = path.matrices()[-1:]
    return out


class Asked(NamedTuple):
    """The different problems of one norm in one dimension: instances (m,), tokens (m, n), and for
    each run the places (R, B) of its problems; `best` has one row."""

    instances: list[int]
    tokens: Ints
    places: dict[str, Ints]


def _chosen(drawn: Spaced, runs: dict[str, Floats]) -> dict[str, Ints]:
    """The tokens (R, B, n) that each run selects at the steps that are read."""
    return {
        name: np.stack([picks(drawn.stack, W) for W in weights]) for name, weights in runs.items()
    }


def _asked(drawn: Spaced, chosen: dict[str, Ints], family: str) -> Asked:
    """The problems of what the runs of a family select, and of the best tokens."""
    chosen = {name: alphas for name, alphas in chosen.items() if name.startswith(family)}
    chosen["best"] = drawn.best[None]
    number: dict[tuple[int, ...], int] = {}
    places = {}
    for name, alphas in chosen.items():
        rows = [
            [number.setdefault((b, *map(int, a)), len(number)) for b, a in enumerate(row)]
            for row in alphas
        ]
        places[name] = np.array(rows)
    return Asked([key[0] for key in number], np.array([key[1:] for key in number]), places)


def run(config: Config) -> Result:
    """All runs in every dimension, and the problems of all that they select and of the best."""
    out: Result = {}
    for d in config["dimensions"]:
        drawn = _drawn(config, d)
        runs = _descents(config, d, drawn)
        out |= {f"{d}.{name}": W for name, W in runs.items()}
        chosen = _chosen(drawn, runs)
        for family, norm in NORMS.items():
            asked = _asked(drawn, chosen, family)
            posed = problems([drawn.stack[b] for b in asked.instances], asked.tokens)
            found = solve_many(posed) if norm == "frobenius" else [solve(p, norm) for p in posed]
            out |= saved_solutions(f"{d}.{norm}", found)
    return out


class Ends(NamedTuple):
    """Where one run of B instances stands, at one step: at the best tokens, at certified locally
    optimal ones, with attention above DECIDED on a token of every input, each (B,)."""

    best: Bools
    local: Bools
    decided: Bools


class EndValues(NamedTuple):
    """What was found in one dimension: ends by run and step, B.1 by family, how many instances
    with every margin surely tight do not end at the best tokens, and all certificates."""

    ends: dict[str, list[Ends]]
    tight: dict[str, Bools]
    astray: int
    certificates: list[Certificate]


def _seen(config: Config, result: Result, d: int) -> EndValues:
    drawn = _drawn(config, d)
    runs = {name: result[f"{d}.{name}"] for name in _runs(config, d)}
    chosen = _chosen(drawn, runs)
    out = EndValues({}, {}, 0, [])
    astray = 0
    for family, norm in NORMS.items():
        asked = _asked(drawn, chosen, family)
        posed = problems([drawn.stack[b] for b in asked.instances], asked.tokens)
        found = recertified(f"{d}.{norm}", posed, norm, result)
        out.certificates.extend(found)
        kinds = []
        for b, alpha, c in zip(asked.instances, asked.tokens, found, strict=True):
            keep = Selection.of(drawn.stack[b], alpha)
            kinds.append(verdict_on(drawn.stack[b], keep, drawn.heads[b], c).kind)
        kind = np.array(kinds)
        for name, places in asked.places.items():
            if name == "best":
                margins = [found[k] for k in places[0]]
                out.tight[family] = np.array([_average(c) < TIGHT for c in margins])
                continue
            out.ends[name] = [
                Ends(
                    kind[row] == "global",
                    np.isin(kind[row], ("global", "local")),
                    np.array(
                        [
                            attention(t, M).max(axis=1).min() >= DECIDED
                            for t, M in zip(drawn.stack, W, strict=True)
                        ]
                    ),
                )
                for row, W in zip(places, runs[name], strict=True)
            ]
        if family == "W":
            sure = np.array([all_tight(found[k]) is True for k in asked.places["best"][0]])
            astray = int((sure & out.ends["W"][-1].local & ~out.ends["W"][-1].best).sum())
    return out._replace(astray=astray)


def _runs(config: Config, d: int) -> list[str]:
    """The names of the runs in this dimension."""
    more = list(PUBLISHED.values()) if d in config["published"] else []
    return [*NORMS, *more, *(["W, long"] if d in config["long"]["dimensions"] else [])]


def _average(certificate: Certificate) -> float:
    """The average margin of the tokens that are not selected; infinite without a solution."""
    if certificate.W is None or certificate.status == "infeasible":
        return np.inf
    return float(np.mean(certificate.problem.margins(certificate.W)))


def _shares(ends: Ends, *, certified: bool) -> dict[str, Bools]:
    """Each of the first three of ENDS, by certificate or, published, by attention as well."""
    if certified:
        return {"not local": ~ends.local, "global": ends.best, "local": ends.local}
    sure = ends.decided
    return {"not local": ~sure, "global": ends.best & sure, "local": ends.local & sure}


def cells(config: Config, seen: dict[int, EndValues], *, certified: bool) -> list[ShareCell]:
    """Every bar: certified at the last step, or as it is read in the published figure."""
    out = []
    record = -1 if certified else config["read"].index(config["drawn"])
    for family in NORMS:
        for d, found in seen.items():
            at = found.ends[family][record]
            counted = {**_shares(at, certified=certified), "B.1": found.tight[family]}
            for end in ENDS:
                published = FIGURE_5[family, end][DIMENSIONS_5.index(d)]
                count, trials = int(counted[end].sum()), len(counted[end])
                out.append(ShareCell(f"{family} {end} d={d}", count, trials, published))
    return out


def check(config: Config, result: Result) -> Finding:
    """Both readings against every bar; shares rise to one; late runs leave what is not local."""
    seen = {d: _seen(config, result, d) for d in config["dimensions"]}
    first, last = config["drawn"], config["read"][-1]
    strict, read = (cells(config, seen, certified=c) for c in (True, False))
    other = {"certified": apart(strict), "read": apart(read)}
    tests: list[Test] = [
        equals(
            f"bars of {len(read)} that differ from v1 (Holm, {LEVEL:.0%}), not local: attention "
            f"below {DECIDED:g} at step {first}",
            len(other["read"]),
            0,
        ),
        noted(
            f"bars that differ from v1, not local: not certified at step {last}",
            len(other["certified"]),
        ),
    ]
    high = max(seen)
    for family in NORMS:
        ends = {d: found.ends[family][-1] for d, found in seen.items()}
        for name, row in (
            ("global ends", [e.best for e in ends.values()]),
            ("certified local ends", [e.local for e in ends.values()]),
            ("instances of B.1", [found.tight[family] for found in seen.values()]),
        ):
            least = min(rise(after, before) for before, after in pairwise(row))
            what = f"{family}: least rise of the share of {name} from one d to the next, in "
            tests.append(at_least(f"{what}standard errors", least, -3.0))
            what = f"{family}: share of {name} at d = {high}"
            asked = config["asked"][name.split()[-1]]
            tests.append(at_least(what, float(row[-1].mean()), asked))
    tests += _steps(config, seen)
    gap = worst_gap([c for s in seen.values() for c in s.certificates if c.status != "infeasible"])
    tests += [
        equals(
            "instances with every margin surely tight that end at other tokens than the best",
            sum(s.astray for s in seen.values()),
            0,
        ),
        at_most("largest certified gap", gap, norm_of("nuclear").tolerance),
    ]
    count = len(seeds_of(config))
    premises = (
        f"{count} instances in each of {len(seen)} dimensions against {INSTANCES} published ones, "
        f"best scores ahead by {config['gap']:g}"
    )
    reason = (
        f"Beyond chance, with certified ends at step {last}: {listed(other['certified'])}; with "
        f"attention at step {first}: {listed(other['read'])}."
    )
    return Finding(tuple(tests), premises, count * len(seen), gap, reason)


def _steps(config: Config, seen: dict[int, EndValues]) -> list[Test]:
    """What the number of steps and the published arithmetic change."""
    out, moves = [], []
    long, last = config["long"]["steps"], config["read"][-1]
    for d in config["long"]["dimensions"]:
        ends = [*seen[d].ends["W"], *seen[d].ends["W, long"]]
        for step, at in zip((*config["read"], long), ends, strict=True):
            share = float((~at.local).mean())
            out.append(noted(f"W, d = {d}: share not certified local at step {step}", share))
        moves.append(ends[-1].local.astype(float) - ends[0].local)
    moved = np.concatenate(moves)
    fall = float(moved.sum() / max(np.sqrt((moved**2).sum()), 1.0))
    what = f"W: fewer not certified local at step {long} than at {config['read'][0]}, of the same"
    out.append(at_least(f"{what} runs, in standard errors", fall, config["asked"]["late"]))
    for d in config["published"]:
        for family, name in PUBLISHED.items():
            at, own = seen[d].ends[name][-1], seen[d].ends[family][-1]
            change = float((at.local != own.local).mean())
            what = f"{name}, d = {d}: share of runs that are local in one arithmetic alone"
            out.append(noted(f"{what}, step {last}", change))
    return out


def plot(config: Config, result: Result) -> Figure:
    """The four shares over d with 95 % intervals, published ones as marks; certified as squares."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    seen = {d: _seen(config, result, d) for d in config["dimensions"]}
    readings = {c: cells(config, seen, certified=c) for c in (True, False)}
    figure, axes = panels(2)
    first, last = config["drawn"], config["read"][-1]
    for ax, family in zip(axes, NORMS, strict=True):
        for k, end in enumerate(ENDS):
            x = np.arange(len(seen)) + 0.19 * (k - 1.5)
            rows = {
                c: [cell for cell in all_ if cell.name.startswith(f"{family} {end} ")]
                for c, all_ in readings.items()
            }
            share, low, high = _bars(rows[False])
            ax.bar(x, share, 0.17, color=CYCLE[(4, 0, 2, 5)[k]], alpha=0.75, label=end)
            ax.errorbar(x, share, (share - low, high - share), fmt="none", ecolor="#555", lw=1)
            if end != "B.1":
                ax.plot(x, [c.share for c in rows[True]], "s", ms=3, color="#d55e00")
            ax.plot(x, [c.published for c in rows[False]], "_", color="#111111", ms=9, mew=1.8)
        ax.plot([], [], "_", color="#111111", ms=9, mew=1.8, label="published")
        ax.plot([], [], "s", ms=3, color="#d55e00", label=f"certified, step {last}")
        ax.set_xticks(range(len(seen)), [str(d) for d in seen])
        ax.set(ylim=(0, 1.04), title=TITLES[family], ylabel=f"share of runs at step {first}")
        ax.set_xlabel("d (n = T = 5; lines: 95 % intervals)")
        ax.legend(
            frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3
        )
    return figure


def _bars(row: Sequence[ShareCell]) -> tuple[Floats, Floats, Floats]:
    """The shares of a row of cells, and the ends of their intervals."""
    low, high = np.array([interval(c.count, c.trials) for c in row]).T
    return np.array([c.share for c in row]), low, high


_FULL = {
    "size": [5, 5],
    "dimensions": list(DIMENSIONS_5),
    "seeds": 100,
    "start": 0,
    "gap": 0.1,
    "lr": 0.1,
    # The released code of the averaged runs takes 2,000 steps and draws 1,000.
    "read": [302, 1000, 2000],
    "drawn": 1000,
    "published": [2, 3, 4, 5],
    "long": {"dimensions": [2, 3], "steps": 20_000},
    # All published ones are 1 at d = 40: at most one in twenty is short of it.
    "asked": {"ends": 0.95, "B.1": 0.95, "late": 2.0},
}

CLAIM = Claim(
    id="B.ends-against-dimension",
    title="Where runs end, against the dimension",
    kind="figure",
    trust="read",
    statement="On random instances with n = T = 5 the share of runs that end at locally optimal "
    "tokens, and at the best ones, rises to one with d, as does the share of instances with nearly "
    "all margins tight (B.1: average below 1.1), for W and, with the nuclear problem, for K and Q. "
    "No bar of the 56 that are published differs if 'not local' means undecided.",
    full=_FULL,
    quick={
        **_FULL,
        "dimensions": [2, 5, 20],
        "seeds": 12,
        "published": [2],
        "long": {"dimensions": [2], "steps": 5000},
        # At d = 20 0.878 of 500 nuclear problems are of B.1: seven of twelve are.
        # Twelve runs cannot tell that fewer are astray late: only that not more are.
        "asked": {"ends": 0.9, "B.1": 0.5, "late": -2.0},
    },
    run=run,
    check=check,
    plot=plot,
    differs="v1 does not state the number of steps, the start, or what 'not local' means. By a "
    "certificate (some tight neighbour of the selected tokens scores higher) bars of d = 2 and 3 "
    "differ: of runs on W 18 % and 0.6 % of 500 are not local, published are 63 % and 17 %. The "
    "published bars fit runs that are undecided: after 1,000 steps, which the released code draws, "
    "some input has less than 0.999 of its attention on one token. With this reading, which was "
    "found by trying, no bar differs. Most such runs do select locally optimal tokens, and with "
    "more steps fewer do not. Exact arithmetic is not the cause: the published eps in the norm "
    "moves no run, the ridge on the factors one in a hundred.",
    reference="tarzanagh2023svm",
    numbered="v1, Figure 5",
    size="100 of 500 instances",
)

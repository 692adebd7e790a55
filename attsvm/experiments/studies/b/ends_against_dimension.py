"""B: where runs end against the dimension, and how often every margin is tight: v1, Figure 5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group
from attsvm.experiments.studies.shared.published import EPS, plain_run
from attsvm.experiments.studies.shared.published_shares import (
    DIMENSIONS_5,
    FIGURE_5,
    INSTANCES,
    LEVEL,
    NAMES,
    ShareCell,
    apart,
    listed,
    rise,
)
from attsvm.experiments.studies.shared.random_instances import attention
from attsvm.experiments.studies.shared.spaced_instances import picks, weights_at
from attsvm.experiments.study import (
    Found,
    Note,
    Premises,
    Study,
    at_least,
    at_most,
    equals,
    info,
)
from attsvm.norms import norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.landscape import all_tight
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

NORMS = {"weight": "frobenius", "factored": "nuclear"}
TITLES = {
    "weight": "Descent on W, Frobenius problem",
    "factored": "Descent on K and Q, nuclear problem",
}
ENDS = ("not local", "global", "local", "B.1")
# The published arithmetic of each model: what is added to a norm, and what to the loss.
PUBLISHED = {"weight": "W+eps", "factored": "KQ+ridge"}
# B.1 is declared when the average margin of the tokens that are not best is below this.
TIGHT = 1.1
# The released code of the averaged runs takes 2,000 steps and draws 1,000.
DRAWN, LAST = 1000, 2000


def measure(
    group: Group,
    model: str,
    d: int,
    read: Sequence[int],
    long: int,
    long_in: Sequence[int],
    published_in: Sequence[int],
) -> dict[str, Any]:
    """Where each run stands at each of the steps that are read.

    In some dimensions W is trained longer as well, and both models in the published arithmetic.
    """
    runs = [("exact", step, W) for step, W in zip(read, weights_at(group.path, read), strict=True)]
    if d in published_in:
        runs.append(("published", LAST, _in_published_arithmetic(group, model)))
    if model == "weight" and d in long_in:
        path = train(group.tokens, head=group.heads, lr=group.run["lr"], steps=long,
                     init=group.drawn.starts or {})  # fmt: skip
        runs.append(("exact", long, path.matrices()[-1]))
    seen: dict[tuple[int, ...], Certificate] = {}
    norm = NORMS[model]
    best = _solved(seen, group, group.best, norm)
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for arithmetic, step, weights in runs:
        chosen = picks(group.tokens, weights)
        found = _solved(seen, group, chosen, norm)
        for b, (t, v, c) in enumerate(zip(group.tokens, group.heads, found, strict=True)):
            kind = verdict_on(t, Selection.of(t, chosen[b]), v, c).kind
            row = (
                group.seeds[b], arithmetic, step, kind == "global", kind in ("global", "local"),
                attention(t, weights[b]).max(axis=1).min() < DECIDED,
                _average(best[b]) < TIGHT, all_tight(best[b]) is True,
                max((float(x.gap) for x in (c, best[b]) if x.status != "infeasible"),
                    default=np.nan),
            )  # fmt: skip
            for name, value in zip(_COLUMNS, row, strict=True):
                columns[name].append(value)
    return {name: np.array(values) for name, values in columns.items()}


_COLUMNS = ("seed", "arithmetic", "step", "global_end", "local_end", "undecided", "nearly",
            "all_tight", "gap")  # fmt: skip


def _in_published_arithmetic(group: Group, model: str) -> Floats:
    """The last weights of the published loop on W, or of factors with the published ridge."""
    lr, first = group.run["lr"], group.drawn.starts or {}
    if model == "weight":
        marks = np.array([LAST])
        return plain_run(group.tokens, group.heads, first["W"], lr=lr, marks=marks, eps=EPS)[-1]
    path = train(
        group.tokens, head=group.heads, model=model, lr=lr, steps=LAST, init=first,
        width=first["K"].shape[2], options={"ridge": EPS},
    )  # fmt: skip
    return path.matrices()[-1]


def _solved(
    seen: dict[tuple[int, ...], Certificate], group: Group, chosen: Any, norm: str
) -> list[Certificate]:
    """The certificates of the problems that select these tokens; each problem is solved once."""
    keys = [(b, *map(int, alpha)) for b, alpha in enumerate(chosen)]
    new = [key for key in keys if key not in seen]
    problems = [
        Problem.of(group.tokens[b], Selection.of(group.tokens[b], list(alpha))) for b, *alpha in new
    ]
    if problems:
        seen.update(zip(new, solve_many(problems, norm), strict=True))
    return [seen[key] for key in keys]


def _average(certificate: Certificate) -> float:
    """The average margin of the tokens that are not selected; infinite without a solution."""
    if certificate.W is None or certificate.status == "infeasible":
        return np.inf
    return float(np.mean(certificate.problem.margins(certificate.W)))


def cells(table: DataFrame, *, certified: bool) -> list[ShareCell]:
    """Every bar: certified at the last step, or as it is read in the published figure."""
    rows = _at(table, LAST if certified else DRAWN)
    out = []
    for (model, d), at in rows.groupby(["model", "d"], sort=False):
        sure = True if certified else ~at.undecided
        counted = {
            "not local": ~at.local_end if certified else at.undecided,
            "global": at.global_end & sure,
            "local": at.local_end & sure,
            "B.1": at.nearly,
        }
        for end, column in counted.items():
            share = FIGURE_5[NAMES[model], end][DIMENSIONS_5.index(d)]
            name = f"{NAMES[model]} {end} d={d}"
            out.append(ShareCell(name, int(column.sum()), len(column), share))
    return out


def _at(table: DataFrame, step: int, arithmetic: str = "exact") -> DataFrame:
    """The rows of one step, in the order of the seeds."""
    return table[(table.step == step) & (table.arithmetic == arithmetic)]


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Both readings against every bar; shares rise to one; late runs leave what is not local."""
    strict, read = (cells(table, certified=c) for c in (True, False))
    other = {"certified": apart(strict), "read": apart(read)}
    yield equals(
        f"bars of {len(read)} that differ from v1 (Holm, {LEVEL:.0%}), not local: attention below "
        f"{DECIDED:g} at step {DRAWN}", len(other["read"]), 0
    )  # fmt: skip
    yield info(f"bars that differ from v1, not local: not certified at step {LAST}",
               len(other["certified"]))  # fmt: skip
    last, high = _at(table, LAST), table.d.max()
    for model, name in NAMES.items():
        ends = last[last.model == model].groupby("d")
        for what, column, asked in (
            ("global ends", "global_end", thresholds["ends"]),
            ("certified local ends", "local_end", thresholds["ends"]),
            ("instances of B.1", "nearly", thresholds["B.1"]),
        ):
            row = [values.to_numpy() for _, values in ends[column]]
            yield at_least(
                f"{name}: least rise of the share of {what} from one d to the next, in standard "
                "errors", min(rise(after, before) for before, after in pairwise(row)), -3.0
            )  # fmt: skip
            yield at_least(f"{name}: share of {what} at d = {high}", row[-1].mean(), asked)
    yield from _steps(table, thresholds)
    astray = last[(last.model == "weight") & last.all_tight & last.local_end & ~last.global_end]
    yield equals("instances with every margin surely tight that end at other tokens than the best",
                 len(astray), 0)  # fmt: skip
    gap = table.gap.max()
    yield at_most("largest certified gap", gap, norm_of("nuclear").tolerance)
    count, dimensions = table.seed.nunique(), table.d.nunique()
    yield Premises(
        count * dimensions,
        f"{count} instances in each of {dimensions} dimensions against {INSTANCES} published ones, "
        "best scores ahead by 0.1",
        gap,
    )
    yield Note(
        f"Beyond chance, with certified ends at step {LAST}: {listed(other['certified'])}; with "
        f"attention at step {DRAWN}: {listed(other['read'])}."
    )


def _steps(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """What the number of steps and the published arithmetic change."""
    exact = table[(table.arithmetic == "exact") & (table.model == "weight")]
    first, long = exact.step.min(), exact.step.max()
    lengthened = exact[exact.d.isin(exact.d[exact.step == long])]
    for (d, step), rows in lengthened.groupby(["d", "step"]):
        yield info(f"W, d = {d}: share not certified local at step {step}",
                   (~rows.local_end).mean())  # fmt: skip
    pairs = lengthened.pivot_table(
        index=["d", "seed"], columns="step", values="local_end", aggfunc="first"
    ).astype(float)
    moved = pairs[long] - pairs[first]
    fall = float(moved.sum() / max(np.sqrt((moved**2).sum()), 1.0))
    yield at_least(f"W: fewer not certified local at step {long} than at {first}, of the same "
                   "runs, in standard errors", fall, thresholds["late"])  # fmt: skip
    both = table[table.step == LAST].pivot_table(
        index=["model", "d", "seed"], columns="arithmetic", values="local_end", aggfunc="first"
    )
    for (model, d), rows in both.dropna().groupby(["model", "d"]):
        yield info(
            f"{PUBLISHED[model]}, d = {d}: share of runs that are local in one arithmetic alone, "
            f"step {LAST}", (rows.exact != rows.published).mean()
        )  # fmt: skip


def figure(table: DataFrame, study: Study) -> Figure:
    """The four shares over d with 95 % intervals, published ones as marks; certified as squares."""
    from attsvm.plotting.studies import CYCLE, panels

    drawn, axes = panels(2)
    read, strict = (cells(table, certified=c) for c in (False, True))
    dimensions = table.d.unique()
    for ax, (model, name) in zip(axes, NAMES.items(), strict=True):
        for k, end in enumerate(ENDS):
            x = np.arange(len(dimensions)) + 0.19 * (k - 1.5)
            row = [cell for cell in read if cell.name.startswith(f"{name} {end} ")]
            share = np.array([cell.share for cell in row])
            low, high = np.array([cell.interval for cell in row]).T
            ax.bar(x, share, 0.17, color=CYCLE[(4, 0, 2, 5)[k]], alpha=0.75, label=end)
            ax.errorbar(x, share, (share - low, high - share), fmt="none", ecolor="#555", lw=1)
            if end != "B.1":
                sure = [cell.share for cell in strict if cell.name.startswith(f"{name} {end} ")]
                ax.plot(x, sure, "s", ms=3, color="#d55e00")
            ax.plot(x, [cell.published for cell in row], "_", color="#111111", ms=9, mew=1.8)
        ax.plot([], [], "_", color="#111111", ms=9, mew=1.8, label="published")
        ax.plot([], [], "s", ms=3, color="#d55e00", label=f"certified, step {LAST}")
        ax.set_xticks(range(len(dimensions)), [str(d) for d in dimensions])
        ax.set(ylim=(0, 1.04), title=TITLES[model], ylabel=f"share of runs at step {DRAWN}",
               xlabel="d (n = T = 5; lines: 95 % intervals)")  # fmt: skip
        ax.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.13),
                  ncols=3)  # fmt: skip
    return drawn


STUDY = Study(
    id="B.ends-against-dimension",
    title="Where runs end, against the dimension",
    kind="figure",
    source="paper",
    statement="On random instances with n = T = 5 the share of runs that end at locally optimal "
    "tokens, and at the best ones, rises to one with d, as does the share of instances with nearly "
    "all margins tight (B.1: average below 1.1), for W and, with the nuclear problem, for K and Q. "
    "No bar of the 56 that are published differs if 'not local' means undecided.",
    family="spaced",
    grid={"model": list(NORMS), "d": list(DIMENSIONS_5)},
    run={
        "size": "5x5",
        "gap": 0.1,
        "init": "drawn",
        "steps": LAST,
        "read": [302, DRAWN, LAST],
        "long": 20_000,
        "long_in": [2, 3],
        "published_in": [2, 3, 4, 5],
    },
    seeds=100,
    group=25,
    measure=measure,
    checks=checks,
    # All published ones are 1 at d = 40: at most one in twenty is short of it.
    thresholds={"ends": 0.95, "B.1": 0.95, "late": 2.0},
    quick={
        "grid": {"d": [2, 5, 20]},
        "seeds": 12,
        "run": {"long": 5000, "long_in": [2], "published_in": [2]},
        # At d = 20 0.878 of 500 nuclear problems are of B.1: seven of twelve are.
        # Twelve runs cannot tell that fewer are astray late: only that not more are.
        "thresholds": {"ends": 0.9, "B.1": 0.5, "late": -2.0},
    },
    figure=figure,
    differs="v1 does not state the number of steps, the start, or what 'not local' means. By a "
    "certificate (some tight neighbour of the selected tokens scores higher) bars of d = 2 and 3 "
    "differ: of runs on W 18 % and 0.6 % of 500 are not local, published are 63 % and 17 %. The "
    "published bars fit runs that are undecided: after 1,000 steps, which the released code draws, "
    "some input has less than 0.999 of its attention on one token. With this reading, which was "
    "found by trying, no bar differs. Most such runs do select locally optimal tokens, and with "
    "more steps fewer do not. Exact arithmetic is not the cause: the published eps in the norm "
    "moves no run, the ridge on the factors one in a hundred.",
    reference="tarzanagh2023svm",
    theorem="v1, Figure 5",
    size="100 of 500 instances",
)

"""B: where runs end against the dimension, and how often every margin is tight: v1, Figure 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.experiments.group import Group, Parts
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
from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, equals
from attsvm.problem.selection import Selection
from attsvm.theory.landscape import all_tight
from attsvm.theory.optima import verdict_on
from attsvm.theory.outcome import DECIDED

NORMS = {"weight": "frobenius", "factored": "nuclear"}
# The published bars, and what each counts at step 1,000.
BARS = {
    "undecided": "not local",
    "global_end & ~undecided": "global",
    "local_end & ~undecided": "local",
    "nearly": "B.1",
}
# B.1 is declared when the average margin of the tokens that are not best is below this.
TIGHT = 1.1
# The released code of the averaged runs takes 2,000 steps and draws 1,000.
DRAWN, LAST = 1000, 2000


def measure(group: Group, model: str, d: int, long: int, long_in: Sequence[int]) -> Parts:
    """Where each run stands early, when it is drawn and at its end; in some dimensions W is trained
    longer as well."""
    read = [302, DRAWN, LAST]
    runs = list(zip(read, weights_at(group.path, read), strict=True))
    if model == "weight" and d in long_in:
        path = train(group.tokens, head=group.heads, lr=group.run["lr"], steps=long,
                     init=group.drawn.starts or {})  # fmt: skip
        runs.append((long, path.matrices()[-1]))
    norm = NORMS[model]
    best = found = group.solved(group.best, norm)
    before, rows = group.best, []
    for step, weights in runs:
        chosen = picks(group.tokens, weights)
        # A problem is solved again where a run has moved on.
        new = group.solved(chosen, norm, where=(chosen != before).any(axis=1))
        found = [old if c is None else c for c, old in zip(new, found, strict=True)]
        before = chosen
        for b, (t, v, c) in enumerate(zip(group.tokens, group.heads, found, strict=True)):
            kind = verdict_on(t, Selection.of(t, chosen[b]), v, c).kind
            solved = [float(x.gap) for x in (c, best[b]) if x.status != "infeasible"]
            rows.append({
                "seed": group.seeds[b],
                "step": step,
                "global_end": kind == "global",
                "local_end": kind in ("global", "local"),
                "undecided": attention(t, weights[b]).max(axis=1).min() < DECIDED,
                "nearly": _average(best[b]) < TIGHT,
                "all_tight": all_tight(best[b]) is True,
                "gap": max(solved, default=np.nan),
            })  # fmt: skip
    return rows


def _average(certificate: Certificate) -> float:
    """The average margin of the tokens that are not selected; infinite without a solution."""
    if certificate.W is None or certificate.status == "infeasible":
        return np.inf
    return float(np.mean(certificate.problem.margins(certificate.W)))


def published(point: Mapping[str, Any]) -> float:
    """The height of a published bar."""
    return FIGURE_5[NAMES[point["model"]], BARS[point["column"]]][DIMENSIONS_5.index(point["d"])]


def cells(table: Table, *, certified: bool) -> list[ShareCell]:
    """Every bar: certified at the last step, or as the published figure is read."""
    rows = table[table.step == (LAST if certified else DRAWN)]
    out = []
    for (model, d), at in rows.groupby(["model", "d"], sort=False):
        sure = at.assign(undecided=~at.local_end) if certified else at
        for column, end in BARS.items():
            share = published({"model": model, "column": column, "d": d})
            name = f"{NAMES[model]} {end} d={d}"
            out.append(ShareCell(name, int(sure.eval(column).sum()), len(at), share))
    return out


def checks(table: Table, thresholds: Any) -> Checks:
    """Both readings against every bar; shares rise to one; late runs leave what is not local."""
    strict, read = (cells(table, certified=c) for c in (True, False))
    certified, attended = apart(strict), apart(read)
    yield equals(
        f"bars of {len(read)} that differ from v1 (Holm, {LEVEL:.0%}), not local: attention below "
        f"{DECIDED:g} at step {DRAWN}", len(attended), 0
    )  # fmt: skip
    last, high = table[table.step == LAST], table.d.max()
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
    late = table[table.d.isin(table.d[table.step > LAST]) & (table.model == "weight")]
    ends = late.astype({"local_end": float}).pivot(index=["d", "seed"], columns="step",
                                                   values="local_end")  # fmt: skip
    first, long = ends.columns.min(), ends.columns.max()
    moved = ends[long] - ends[first]
    yield at_least(
        f"W: fewer not certified local at step {long} than at {first}, of the same "
        "runs, in standard errors",
        moved.sum() / max(np.sqrt((moved**2).sum()), 1.0),
        thresholds["late"],
    )
    astray = last[(last.model == "weight") & last.all_tight & last.local_end & ~last.global_end]
    yield equals("instances with every margin surely tight that end at other tokens than the best",
                 len(astray), 0)  # fmt: skip
    count, dimensions = table.seed.nunique(), table.d.nunique()
    yield Premises(
        count * dimensions,
        f"{count} instances in each of {dimensions} dimensions, {INSTANCES} published ones; beyond "
        f"chance, with certified ends: {listed(certified)}; with attention: {listed(attended)}",
    )


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
        "long": 20_000,
        "long_in": [2, 3],
    },
    seeds=100,
    group=25,
    measure=measure,
    checks=checks,
    gap=1e-6,
    # All published ones are 1 at d = 40: at most one in twenty is short of it.
    thresholds={"ends": 0.95, "B.1": 0.95, "late": 2.0},
    quick={
        "grid": {"d": [2, 5, 20]},
        "seeds": 12,
        "run": {"long": 5000, "long_in": [2]},
        # At d = 20 0.878 of 500 nuclear problems are of B.1: seven of twelve are.
        # Twelve runs cannot tell that fewer are astray late: only that not more are.
        "thresholds": {"ends": 0.9, "B.1": 0.5, "late": -2.0},
    },
    figure={
        "kind": "curves",
        "where": {"step": DRAWN},
        "x": "d",
        "value": BARS,
        "panels": "model",
        "published": published,
        "ylabel": "share of runs at step 1,000 (not local: undecided)",
    },
    differs="v1 does not state the number of steps, the start, or what 'not local' means. By a "
    "certificate bars of d = 2 and 3 differ (of 500 runs on W 18 % and 0.6 % are not local, "
    "published are 63 % and 17 %). No bar differs if 'not local' means that after 1,000 steps, "
    "which the released code draws, some input has less than 0.999 of its attention on one token; "
    "this reading was found by trying.",
    theorem="v1, Figure 5",
    size="100 of 500 instances",
)

"""A: on the joint regularization path, how fast the decoder's radius grows decides the limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm.experiments.group import Group, cosine, selected_by
from attsvm.experiments.studies.a.joint import instance, solutions
from attsvm.experiments.study import Found, Premises, Study, at_least, at_most, equals, info
from attsvm.theory.landscape import label_margin_constant
from attsvm.theory.regularization_path.paths import regpath

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

# Radius of the decoder as a power of the prompt's, and the problem the prompt should meet.
CASES = {
    "tight, r = √R": ("joint-tight", 0.5, "whole"),
    "tight, r = R": ("joint-tight", 1.0, "whole"),
    "relaxed, r = √R": ("joint-relaxed", 0.5, "whole"),
    "relaxed, r = R": ("joint-relaxed", 1.0, "relaxed"),
}


def measure(group: Group, case: str, radii: Sequence[float], starts: int) -> dict[str, Any]:
    """The least joint loss with ‖p‖ ≤ R, ‖v‖ ≤ r(R): a row for each radius.

    right: whether p selects the tokens; size_p, size_v: norms over their radii.
    """
    name, power, _ = CASES[case]
    tokens, keep = instance(name)
    path = regpath(
        tokens,
        model="joint-prompt",
        radii=radii,
        keep=keep,
        second=lambda R: R**power,
        starts=starts,
    )
    p, v = path.weights["p"], path.weights["v"]
    best = solutions(name)
    R = np.array(radii)
    return {
        "seed": np.full(len(R), group.seeds[0]),
        "radius": R,
        "right": np.array([(selected_by(tokens, x[:, None]) == keep.indices).all() for x in p]),
        "cosine_whole": np.array([cosine(x[:, None], best["whole"]) for x in p]),
        "cosine_relaxed": np.array([cosine(x[:, None], best["relaxed"]) for x in p]),
        "cosine_v": np.array([cosine(x[:, None], best["labels"]) for x in v]),
        "size_p": np.linalg.norm(p, axis=1) / R,
        "size_v": np.linalg.norm(v, axis=1) / R**power,
        "constant": np.full(len(R), label_margin_constant(tokens, keep)),
        "gap": np.full(len(R), max(float(c.gap) for c in best.values())),
    }


def checks(table: DataFrame, thresholds: Any) -> Iterator[Found]:
    """Each path ends in the direction its speed calls for; v in that of the label margin."""
    last = table.radius.max()
    for case, end in table[table.radius == last].set_index("case").iterrows():
        target = CASES[str(case)][2]
        reached = end[f"cosine_{target}"] if end.right else np.nan
        yield at_least(f"{case}: cosine of p to the {target} problem", reached, 0.999)
        yield at_least(f"{case}: cosine of v", end.cosine_v, 0.999)
        yield equals(f"{case}: ‖p‖/R at the end", end.size_p, 1.0, within=1e-6)
        yield equals(f"{case}: ‖v‖/r(R) at the end", end.size_v, 1.0, within=1e-6)
        yield info(f"{case}: label-margin constant", end.constant)
    gap = float(table.gap.max())
    yield at_most("largest certified gap", gap, 1e-9)
    yield Premises(
        table.case.nunique(),
        "the label-margin constant, estimated from above, is positive on the tight instance; on "
        "the other it is 0, as it must be where an input supports nothing, and the general form "
        "is judged all the same",
        gap,
    )


def figure(table: DataFrame, study: Study) -> Figure:
    """1 − cosine of p to both problems over R, one panel a case."""
    from attsvm.plotting.studies import CYCLE, panels

    drawn, axes = panels(4, figsize=(12, 4), sharey=True)
    for ax, (case, rows) in zip(axes, table.groupby("case", sort=False), strict=True):
        for j, part in enumerate(("whole", "relaxed")):
            away = (1 - rows[f"cosine_{part}"]).clip(lower=1e-9)
            label = f"{part} problem" + (" (expected)" if part == CASES[case][2] else "")
            # The two may be one line.
            ax.loglog(
                rows.radius, away, ("s-", ".--")[j], color=CYCLE[j], markersize=5, label=label
            )
        ax.set(xlabel="R", title=case)
        ax.xaxis.set_minor_formatter("")
        ax.legend(frameon=False, fontsize=7.5)
    axes[0].set_ylabel("1 − cosine of p to the certified direction")
    return drawn


STUDY = Study(
    id="A.joint-path",
    title="Joint regularization path: the decoder's radius decides",
    kind="theorem",
    source="paper",
    statement="Minimising the logistic loss with ‖p‖ ≤ R and ‖v‖ ≤ r, both growing, where "
    "attention off the selected tokens costs label margin, v tends to the max-margin decoder and p "
    "to the prompt of least norm with a margin of 1 on the inputs that support the decoder and of "
    "0 on the others. This is on the regularization path alone, and how r grows with R is not "
    "said.",
    grid={"case": list(CASES)},
    run={"radii": [1.0, 3.0, 10.0, 30.0, 100.0], "starts": 1},
    measure=measure,
    checks=checks,
    quick={"run": {"radii": [3.0, 30.0]}},
    figure=figure,
    differs="How r grows decides where an input does not support the decoder: with r = R the path "
    "ends at the relaxed solution, with r = √R at the unrelaxed one; both are judged. Strictly the "
    "premise leaves no such input: a little of its attention can go elsewhere at no cost in label "
    "margin.",
    reference="tarzanagh2023maxmargin",
    theorem="slides",
    published=True,
)

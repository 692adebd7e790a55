"""C: the joint ℓp regularization path tends to both ℓp max-margin directions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from attsvm.experiments.group import Group, cosine, selected_by, share
from attsvm.experiments.studies.c.joint_mirror import EXPONENTS, instance, problems
from attsvm.experiments.studies.shared.mirror_runs import norm_name
from attsvm.experiments.studies.shared.rows import stacked_columns
from attsvm.experiments.study import Found, Note, Premises, Study, Table, at_least, at_most, equals
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import support_inputs
from attsvm.theory.landscape import label_margin_constant
from attsvm.theory.regularization_path.paths import regpath


def measure(group: Group, p: str, radii: list[float], power: float, starts: int) -> dict[str, Any]:
    """The path of one exponent at the tokens of the largest label margin, by radius of W.

    cosine_, share_: of W and v with their certified solutions; size_: norms over the radii;
    inside: the premises hold, of which the label-margin constant is estimated from above.
    """
    tokens, norm = instance(), norm_of(norm_name(p))
    selections = [list(a) for a in product(range(tokens.T), repeat=tokens.n)]
    labels = [solve(problems(alpha)["v"], norm) for alpha in selections]
    k = int(np.argmin([c.upper for c in labels]))
    keep = Selection.of(tokens, selections[k])
    best = {"W": solve(problems(selections[k])["W"], norm), "v": labels[k]}
    path = regpath(
        tokens, model="joint-weight", norm=norm_name(p), radii=radii, keep=keep,
        second=lambda R: R**power, starts=starts,
    )  # fmt: skip
    nu = label_margin_constant(tokens, keep, norm=norm)
    inside = nu > 0 and bool(support_inputs(tokens, keep, norm=norm).all())
    columns: dict[str, Any] = {
        "seed": group.seeds[0],
        "radius": np.array(radii),
        "right": np.array([
            (selected_by(tokens, M) == keep.indices).sum() for M in path.weights["W"]
        ]),
        "inside": inside,
        "gap": max(float(c.gap) for c in best.values()),
    }  # fmt: skip
    matrices = {"W": path.weights["W"], "v": path.weights["v"][..., None]}
    sizes = {"W": np.array(radii), "v": np.array(radii) ** power}
    for part, given in matrices.items():
        columns[f"cosine_{part}"] = np.array([cosine(M, best[part]) for M in given])
        columns[f"share_{part}"] = np.array([share(M, best[part]) for M in given])
        columns[f"size_{part}"] = np.array([float(norm.value(M)) for M in given]) / sizes[part]
    return stacked_columns([columns])


def checks(table: Table, thresholds: Any) -> Iterator[Found]:
    """At the last radius W and v are at their certified directions, on the edge of their balls."""
    inside = 0
    for p, rows in table.groupby("p", sort=False):
        first, end = rows.iloc[0], rows.iloc[-1]
        if not end.inside:
            continue
        inside += 1
        yield equals(f"p = {p}: inputs that select the tokens of the largest label margin",
                     end.right, instance().n)  # fmt: skip
        for part, ball in (("W", "R"), ("v", "r")):
            yield at_least(f"p = {p}: cosine of {part}", end[f"cosine_{part}"],
                           thresholds["cosine"])  # fmt: skip
            yield at_least(f"p = {p}: margin share of {part}", end[f"share_{part}"],
                           thresholds["share"])  # fmt: skip
            yield equals(f"p = {p}: ‖{part}‖/{ball}", end[f"size_{part}"], 1.0, within=1e-6)
        yield at_most(f"p = {p}: 1 − cosine of W, last over first radius",
                      (1 - end.cosine_W) / (1 - first.cosine_W), 0.1)  # fmt: skip
    gap = table.gap.max(skipna=False)
    yield at_most("largest certified gap", gap, 1e-6)
    count = table.p.nunique()
    yield Premises(
        inside,
        f"{inside} of {count} exponents inside the premises: a positive label-margin constant, and "
        "every input supports the decoder, at the tokens of the largest label margin",
        gap,
    )
    if inside < count:
        yield Note(
            "outside the premises are the exponents whose decoder some input does not support, "
            "such as p = 1.1: the general form has a relaxed problem there, and with r = √R the "
            "path ends at the unrelaxed one all the same"
        )


STUDY = Study(
    id="C.joint-mirror-path",
    title="Joint ℓp regularization path",
    kind="theorem",
    source="from memory",
    statement="Minimising the logistic loss over ‖W‖_p ≤ R and ‖v‖_p ≤ r with both radii growing, "
    "where any attention off the selected tokens costs label margin, v tends to the ℓp max-margin "
    "decoder and W to the ℓp attention solution when every selected token supports the decoder.",
    # The exponents of the published joint runs, and that of its runs on real data.
    grid={"p": ["1.1", *EXPONENTS]},
    run={"radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0], "power": 0.5, "starts": 3},
    measure=measure,
    checks=checks,
    thresholds={"cosine": 0.999, "share": 0.99},
    quick={"run": {"radii": [1.0, 30.0, 1000.0], "starts": 1}},
    figure={
        "kind": "curves",
        "x": "radius",
        "value": {"1 - cosine_W": "attention W", "1 - cosine_v": "decoder v"},
        "apart": True,
        "lines": "p",
        "log": "xy",
        "xlabel": "R (radius of v: √R)",
        "ylabel": "1 − cosine to the certified direction",
    },
    reference="julistiono2024mirror",
    published=True,
)

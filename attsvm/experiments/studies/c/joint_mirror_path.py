"""C: the joint ℓp regularization path tends to both ℓp max-margin directions."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from attsvm.experiments.studies.c.joint_mirror import EXPONENTS as PUBLISHED
from attsvm.experiments.studies.c.joint_mirror import instance, problems
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
from attsvm.experiments.studies.shared.mirror_runs import norm_name
from attsvm.experiments.studies.shared.proof import (
    cosine,
    recertified,
    saved_solutions,
    selected,
    share,
    worst_gap,
)
from attsvm.norms import norm_of
from attsvm.problem.selection import Selection
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_sets import support_inputs
from attsvm.theory.landscape import label_margin_constant
from attsvm.theory.regularization_path.paths import regpath

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The exponents of the published joint runs, and that of its runs on real data.
EXPONENTS = ("1.1", *PUBLISHED)


def selections() -> list[list[int]]:
    """Every choice of one token per input."""
    tokens = instance()
    return [list(a) for a in product(range(tokens.T), repeat=tokens.n)]


def run(config: Config) -> Result:
    """The paths at the tokens of the largest label margin, by exponent; and all label margins."""
    tokens = instance()
    out: Result = {"radii": np.array(config["radii"])}
    for p in EXPONENTS:
        norm = norm_name(p)
        margins = [solve(problems(alpha)["v"], norm) for alpha in selections()]
        out |= saved_solutions(f"{p}.labels", margins)
        alpha = selections()[int(np.argmin([c.upper for c in margins]))]
        path = regpath(
            tokens,
            model="joint-weight",
            norm=norm,
            radii=config["radii"],
            keep=Selection.of(tokens, alpha),
            second=lambda R: R ** config["power"],
            starts=config["starts"],
        )
        out |= {f"{p}.W": path.weights["W"], f"{p}.v": path.weights["v"]}
        out |= saved_solutions(f"{p}.best", [solve(problems(alpha)["W"], norm)])
    return out


def check(config: Config, result: Result) -> Finding:
    """At the last radius W and v are at their certified directions, on the edge of their balls."""
    tokens = instance()
    tests, gaps, inside = [], [], 0
    for p in EXPONENTS:
        norm = norm_of(norm_name(p))
        labels = recertified(f"{p}.labels", [problems(a)["v"] for a in selections()], norm, result)
        k = int(np.argmin([c.upper for c in labels]))
        alpha = selections()[k]
        keep = Selection.of(tokens, alpha)
        best = recertified(f"{p}.best", [problems(alpha)["W"]], norm, result)[0]
        feasible = [c for c in labels if c.W is not None]
        gaps.append(worst_gap([best, labels[k]]))
        nu = label_margin_constant(tokens, keep, norm=norm).constant
        within = nu > 0 and bool(support_inputs(tokens, keep, norm=norm).all())
        inside += within
        rival = min(c.lower for c in feasible if c is not labels[k])
        W, v = result[f"{p}.W"], result[f"{p}.v"][..., None]
        R, r = result["radii"][-1], result["radii"][-1] ** config["power"]
        away = [1 - cosine(M, best) for M in W]
        found = [
            equals(
                f"p = {p}: inputs that select the tokens of the largest label margin",
                int((selected(tokens, W[-1]) == keep.indices).sum()),
                tokens.n,
            ),
            at_least(f"p = {p}: cosine of W", cosine(W[-1], best), config["cosine"]),
            at_least(f"p = {p}: margin share of W", share(W[-1], best), config["share"]),
            at_least(f"p = {p}: cosine of v", cosine(v[-1], labels[k]), config["cosine"]),
            at_least(f"p = {p}: margin share of v", share(v[-1], labels[k]), config["share"]),
            equals(f"p = {p}: ‖W‖/R", float(norm.value(W[-1])) / R, 1.0, within=1e-6),
            equals(f"p = {p}: ‖v‖/r", float(norm.value(v[-1])) / r, 1.0, within=1e-6),
            at_most(f"p = {p}: 1 − cosine of W, last over first radius", away[-1] / away[0], 0.1),
            noted(f"p = {p}: label-margin constant, estimated from above", nu),
            noted(
                f"p = {p}: least norm of the next selection's decoder over the best one's",
                rival / labels[k].upper,
            ),
        ]
        tests += found if within else [noted(f"{one.what}, outside", one.seen) for one in found]
    tests.append(at_most("largest certified gap", max(gaps), 1e-6))
    premises = (
        f"{inside} of {len(EXPONENTS)} exponents inside the premises: a positive label-margin "
        "constant (estimated from above by sampling) and every input supporting the decoder, at "
        "the tokens of the largest label margin"
    )
    reason = (
        "outside the premises are the exponents whose decoder some input does not support, such "
        "as p = 1.1, which likes a decoder of one entry: the general form has a relaxed problem "
        "there, and with r = √R the path ends at the unrelaxed one all the same"
    )
    return Finding(
        tuple(tests), premises, inside, max(gaps), reason if inside < len(EXPONENTS) else ""
    )


def plot(config: Config, result: Result) -> Figure:
    """1 − cosine of W and v over R, by exponent."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right) = panels(2, sharey=True)
    for k, p in enumerate(EXPONENTS):
        labels = recertified(
            f"{p}.labels", [problems(a)["v"] for a in selections()], norm_name(p), result
        )
        place = int(np.argmin([c.upper for c in labels]))
        best = recertified(f"{p}.best", [problems(selections()[place])["W"]], norm_name(p), result)[
            0
        ]
        name = f"p = {p}, tokens {tuple(selections()[place])}"
        for axes, path, target in (
            (left, result[f"{p}.W"], best),
            (right, result[f"{p}.v"][..., None], labels[place]),
        ):
            axes.loglog(
                result["radii"],
                [max(1 - cosine(M, target), 1e-12) for M in path],
                ".-",
                color=CYCLE[k],
                label=name,
            )
    left.set(xlabel="R", ylabel="1 − cosine to the certified direction", title="Attention W")
    right.set(xlabel="R (radius of v: √R)", title="Decoder v")
    left.legend(frameon=False, fontsize=7.5)
    return figure


_FULL = {
    "radii": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0],
    "power": 0.5,
    "starts": 3,
    "cosine": 0.999,
    "share": 0.99,
}

CLAIM = Claim(
    id="C.joint-mirror-path",
    title="Joint ℓp regularization path",
    kind="theorem",
    trust="as recalled",
    statement="Minimising the logistic loss over ‖W‖_p ≤ R and ‖v‖_p ≤ r with both radii growing, "
    "where any attention off the selected tokens costs label margin, v tends to the ℓp max-margin "
    "decoder and W to the ℓp attention solution when every selected token supports the decoder.",
    full=_FULL,
    quick={**_FULL, "radii": [1.0, 30.0, 1000.0], "starts": 1},
    run=run,
    check=check,
    plot=plot,
    reference="julistiono2024mirror",
)

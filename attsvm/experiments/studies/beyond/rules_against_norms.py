"""Beyond: each optimizer's margin is largest in the norm of its own steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
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
from attsvm.experiments.studies.shared.proof import worst_gap
from attsvm.experiments.studies.shared.steepest_runs import (
    NORMS,
    arrived,
    certified,
    drawn,
    shares,
    solutions,
    trained,
)
from attsvm.theory.landscape import equal_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# (model, optimizer) and the norm its margin is expected to be largest in, "" where none is solved
# here.
ROWS = {
    "weight ngd": "frobenius",
    "weight sign": "max",
    "weight spectral": "spectral",
    "factored ngd": "nuclear",
    "factored spectral": "spectral",
    "factored sign": "",
}


def run(config: Config) -> Result:
    """The final weights of every optimizer, and the solutions in every norm."""
    out = solutions(config)
    for row in ROWS:
        model, optimizer = row.split()
        out[row] = trained(config, model, optimizer)
    return out


def _table(config: Config, result: Result) -> tuple[Floats, float]:
    """The median certified share (optimizers, norms), and the largest gap of the solutions."""
    best = certified(config, result)
    table = [[np.median(shares(result[row], best[norm])) for norm in NORMS] for row in ROWS]
    return np.array(table), max(worst_gap(c) for c in best.values())


def check(config: Config, result: Result) -> Finding:
    """Row maxima at the expected norms, and near 1 there."""
    tokens, heads, _ = drawn(config)
    table, gap = _table(config, result)
    inside = sum(equal_scores(t, v) for t, v in zip(tokens, heads, strict=True))
    tests = []
    here = {row: arrived(config, result[row]) for row in ROWS}
    for row, own, values in zip(ROWS, ROWS.values(), table, strict=True):
        tests.append(noted(f"{row}: runs that select the best tokens", here[row]))
        if not own:
            tests.append(
                noted(
                    f"{row}: largest median share, in {NORMS[int(values.argmax())]}", values.max()
                )
            )
            continue
        place = NORMS.index(own)
        lead = values[place] - np.delete(values, place).max()
        tests += [
            at_least(f"{row}: median margin share in {own}", values[place], config["share"]),
            at_least(f"{row}: lead over the next norm", lead, 0.0),
        ]
    tests += [
        equals("instances with equal non-optimal scores", inside, len(tokens)),
        at_most("largest certified gap", gap, 1e-6),
    ]
    premises = f"{inside} of {len(tokens)} instances separable, with equal non-optimal scores"
    astray = [f"{row} {len(tokens) - n}" for row, n in here.items() if n < len(tokens)]
    note = "runs that end at other tokens count with share 0: " + ", ".join(astray)
    return Finding(tuple(tests), premises, inside, gap, note if astray else "")


def plot(config: Config, result: Result) -> Figure:
    """The table of median shares."""
    from attsvm.experiments.studies.shared.drawing import panels

    table, _ = _table(config, result)
    figure, (axes,) = panels(1)
    image = axes.imshow(table, cmap="cividis", vmin=0.5, vmax=1.0, aspect="auto")
    for i, own in enumerate(ROWS.values()):
        for j, norm in enumerate(NORMS):
            weight = "bold" if norm == own else "normal"
            axes.text(
                j,
                i,
                f"{table[i, j]:.3f}",
                ha="center",
                va="center",
                fontweight=weight,
                # Not the house's white and black, which a dark page turns round: cells stay.
                color="#fefefe" if table[i, j] < 0.8 else "#010101",
            )
    axes.set_xticks(range(len(NORMS)), NORMS)
    axes.set_yticks(range(len(ROWS)), list(ROWS))
    axes.set(
        xlabel="norm of the margin",
        ylabel="model and optimizer",
        title="Median certified margin share (bold: the expected norm)",
    )
    figure.colorbar(image, ax=axes).ax.set_xlabel("share")
    return figure


_FULL = {"seeds": list(range(20)), "seed": 1, "steps": 6000, "share": 0.98}

CLAIM = Claim(
    id="beyond.rules-against-norms",
    title="Optimizers against norms",
    kind="question",
    trust="measured",
    statement="With steps falling like t^−½, normalized, sign and spectral descent on the weight "
    "reach in the median nearly the best margin in the Frobenius, max and spectral norm, and on "
    "factors normalized and spectral descent in the nuclear and spectral norm of the product: each "
    "its largest share among the norms.",
    full=_FULL,
    quick={**_FULL, "seeds": list(range(6)), "steps": 1500, "share": 0.95},
    run=run,
    check=check,
    plot=plot,
    reference="fan2025spectral",
)

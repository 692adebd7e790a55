"""Beyond: steepest descent in several norms: margins, factors, and the ceiling of weight decay."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.api import train
from attsvm.experiments.group import Group, Parts, gaps_of, norms_of, thinned
from attsvm.experiments.measures import NORMS, certified_shares
from attsvm.experiments.study import Checks, Note, Premises, Study, Table, at_least, at_most, equals
from attsvm.norms import norm_of
from attsvm.theory.landscape import equal_scores
from attsvm.theory.measures import rank
from attsvm.training.optimizers import schedule_of
from attsvm.training.path import Path

# Step sizes of the weight and of the factors, both falling like t^−½.
RATES = {"weight": 1.0, "factored": 0.3}
# The deviation of the first entries of the factors.
_DEVIATION = 0.1


def steepest(
    group: Group, model: str, optimizer: str, *, start: int, decay: float = 0.0, width: int = 0
) -> Path:
    """The run of a group: the weight from zero, factors (of `width` columns, d for 0) from N(0,
    0.1²), each instance's from its own stream of the seed `start`."""
    init: str | dict[str, Floats] = "zero"
    if model == "factored":
        tokens = group.tokens[0]
        d, dq = tokens.d, tokens.queries.shape[1]
        m = width or min(d, dq)
        streams = [np.random.default_rng([start, seed]) for seed in group.seeds]
        init = {
            name: _DEVIATION * np.stack([s.standard_normal((size, m)) for s in streams])
            for name, size in (("K", d), ("Q", dq))
        }
    return train(
        group.tokens, model=model, optimizer=optimizer, head=group.heads, loss="linear",
        lr=RATES[model], schedule="sqrt", decay=decay, steps=group.run["steps"], init=init,
        width=width or None,
    )  # fmt: skip


# ---------------------------------------------------------------- margins

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


def measure_norms(group: Group, row: str, start: int = 1) -> dict[str, Any]:
    """The certified share of the best margin in each norm; 0 at other tokens than the best."""
    model, optimizer = row.split()
    W = steepest(group, model, optimizer, start=start).matrices()[-1]
    same = [equal_scores(t, v) for t, v in zip(group.tokens, group.heads, strict=True)]
    return {**certified_shares(group, W, NORMS), "equal_scores": np.array(same)}


def checks_norms(table: Table, thresholds: Any) -> Checks:
    """Row maxima at the expected norms, and near 1 there."""
    shares = table.groupby("row", sort=False)[[f"share_{norm}" for norm in NORMS]].median()
    for row, own in filter(all, ROWS.items()):
        values = shares.loc[row].to_numpy()
        place = NORMS.index(own)
        lead = values[place] - np.delete(values, place).max()
        yield at_least(f"{row}: median margin share in {own}", values[place], thresholds["share"])
        yield at_least(f"{row}: lead over the next norm", lead, 0.0)
    once = table.drop_duplicates("seed")
    inside = int(once.equal_scores.sum())
    yield equals("instances with equal non-optimal scores", inside, len(once))
    yield Premises(
        inside, f"{inside} of {len(once)} instances separable, with equal non-optimal scores"
    )
    if not table.arrived.all():
        yield Note(f"{(~table.arrived).sum()} runs end at other tokens and count with share 0")


STUDY_NORMS = Study(
    id="beyond.rules-against-norms",
    title="Optimizers against norms",
    kind="question",
    source="measured",
    statement="With steps falling like t^−½, normalized, sign and spectral descent on the weight "
    "reach in the median nearly the best margin in the Frobenius, max and spectral norm, and on "
    "factors normalized and spectral descent in the nuclear and spectral norm of the product: each "
    "its largest share among the norms.",
    family="sphere",
    grid={"row": list(ROWS)},
    run={"n": 5, "T": 4, "d": 5, "equal_scores": True, "steps": 6000, "start": 1},
    seeds=20,
    measure=measure_norms,
    checks=checks_norms,
    gap=1e-6,
    thresholds={"share": 0.98},
    quick={"seeds": 6, "run": {"steps": 1500}, "thresholds": {"share": 0.95}},
    figure={
        "kind": "matrix",
        "rows": "row",
        "values": [f"share_{norm}" for norm in NORMS],
        "xlabel": "norm of the margin",
        "ylabel": "model and optimizer",
        "title": "Median certified margin share (bold: the largest of a row)",
        "vlabel": "share",
    },
    reference="fan2025spectral",
)


# ---------------------------------------------------------------- factors

OF_FACTORS = ("spectral", "nuclear", "frobenius")


def measure_factors(group: Group, run: str, start: int) -> dict[str, Any]:
    """The certified share of the best margin in each norm, of a run on the weight or on factors.

    run: "weight", or "width M". rank: that of the spectral solution.
    """
    model, width = ("weight", 0) if run == "weight" else ("factored", int(run.split()[1]))
    W = steepest(group, model, "spectral", start=start, width=width).matrices()[-1]
    ranks = [float(rank(np.asarray(c.W))) for c in group.solved(group.best, "spectral")]
    return {**certified_shares(group, W, OF_FACTORS), "rank": np.array(ranks)}


def checks_factors(table: Table, thresholds: Any) -> Checks:
    """From the width of the solution's rank on, the spectral share is that of the weight."""
    medians = table.groupby("run", sort=False)[[f"share_{norm}" for norm in OF_FACTORS]].median()
    ranks = table[table.run == "weight"]["rank"]
    whole = medians.share_spectral["weight"]
    yield at_least("weight: median spectral share", whole, thresholds["share"])
    judged = 0
    for run, (own, *others) in medians.drop("weight").iterrows():
        if int(run.split()[1]) < ranks.max():
            continue
        judged += len(ranks)
        yield at_least(f"{run}: median spectral share", own, thresholds["share"])
        yield at_least(f"{run}: spectral share less the larger of the others", own - max(others),
                       0.0)  # fmt: skip
        yield at_most(f"{run}: distance of the median share to the weight's", abs(own - whole),
                      0.02)  # fmt: skip
    text = f"{judged} runs of width at least the solutions' largest rank, {int(ranks.max())}"
    yield Premises(judged, text)
    if not table.arrived.all():
        yield Note(f"{(~table.arrived).sum()} runs end at other tokens and count with share 0")


STUDY_FACTORS = Study(
    id="beyond.factored-spectral",
    title="Spectral descent does not notice the factors",
    kind="question",
    source="measured",
    statement="Spectral descent on the factors of K Qᵀ maximizes the margin in the spectral norm "
    "of the product, in the median as nearly as it does on the weight itself, once the width "
    "reaches the rank of the solution.",
    family="sphere",
    grid={"run": ["weight", "width 2", "width 5", "width 10", "width 20"]},
    run={"n": 5, "T": 4, "d": 5, "equal_scores": True, "steps": 6000, "start": 1},
    seeds=12,
    measure=measure_factors,
    checks=checks_factors,
    gap=1e-6,
    thresholds={"share": 0.98},
    quick={
        "grid": {"run": ["weight", "width 2", "width 5"]},
        "seeds": 4,
        "run": {"steps": 1500},
        "thresholds": {"share": 0.95},
    },
    figure={
        "kind": "matrix",
        "rows": "run",
        "values": [f"share_{norm}" for norm in OF_FACTORS],
        "xlabel": "norm of the margin",
        "ylabel": "the weight, or factors of a width",
        "title": "Spectral descent: median certified margin share",
        "vlabel": "share",
    },
    reference="fan2025spectral",
)


# ---------------------------------------------------------------- weight decay

# Model and optimizer: the norm of a block's step, and the norm of W in which the gap is bounded.
CASES = {
    "weight ngd": ("frobenius", "frobenius"),
    "weight sign": ("max", "max"),
    "weight spectral": ("spectral", "spectral"),
    "factored ngd": ("frobenius", "nuclear"),
    "factored spectral": ("spectral", "spectral"),
}


def measure_ceiling(group: Group, case: str, start: int) -> Parts:
    """A row per instance and record: `lead`, the least logit lead of a best token, and its ceiling.

    The ceiling is Π R_t over the blocks, times the best margin. over: the largest norm of a block
    over its R_t. gap: that of the certified solution.
    """
    model, optimizer = case.split()
    step, whole = CASES[case]
    decay = group.run["decay"]
    path = steepest(group, model, optimizer, start=start, decay=decay)
    keep = thinned(path.steps)
    steps = path.steps[keep]
    found = group.solved(group.best, whole)
    norm, over, reach = norm_of(step), [], np.ones((len(keep), len(group)))
    for block in path.weights.values():
        sizes = np.stack([np.asarray(norm.value(M)) for M in block[keep]])
        radius = _radius(steps, sizes[0], RATES[model], decay)
        over.append(np.divide(sizes, radius, out=np.zeros_like(sizes), where=radius > 0))
        reach = reach * radius
    W, ceiling, most = path.matrices()[keep], reach / norms_of(found), np.max(over, axis=0)
    return [
        {
            "seed": seed,
            "step": steps,
            "lead": np.array([found[b].problem.margins(M).min() for M in W[:, b]]),
            "ceiling": ceiling[:, b],
            "over": most[:, b],
            "gap": gaps_of(found)[b],
        }
        for b, seed in enumerate(group.seeds)
    ]  # fmt: skip


def _radius(steps: Ints, first: Floats, lr: float, decay: float) -> Floats:
    """R_t (R, B): ‖θ₀‖ Π + (1 − Π)/λ, Π = Π_s (1 − λη_s), and ‖θ₀‖ + Σ_s η_s without decay."""
    eta = lr * np.array([schedule_of("sqrt")(s) for s in range(int(steps[-1]))])
    left = np.cumprod([1.0, *(1 - decay * eta)])[steps][:, None]
    added = (1 - left) / decay if decay else np.cumsum([0.0, *eta])[steps][:, None]
    return left * first + added


def checks_ceiling(table: Table, thresholds: Any) -> Checks:
    """Norms and gaps stay below their bounds at every record, and end near them."""
    near, last = thresholds["attained"], table.step.max()
    half = table.step[table.step >= last / 2].min()
    for case, rows in table.groupby("case", sort=False):
        held, free = rows[rows.decay > 0], rows[rows.decay == 0]
        later = held[held.step > 0]
        yield at_most(f"{case}: largest norm over its bound R_t", later.over.max(), 1 + 1e-9)
        yield at_most(f"{case}: largest gap over its ceiling", (later.lead / later.ceiling).max(),
                      1 + 1e-9)  # fmt: skip
        ends = held[held.step == last]
        yield at_least(f"{case}: median gap over its ceiling at the end",
                       (ends.lead / ends.ceiling).median(), near)  # fmt: skip
        grown, went = (_growth(some, half, last) for some in (held, free))
        # It stops where the ceiling does, and goes on with the bound ‖θ₀‖ + Σ η without one, about
        # √2 for a weight and 2 for factors.
        yield at_most(f"{case}: the same over the growth of the ceiling",
                      (grown.lead / grown.ceiling).median(), 1 / near)  # fmt: skip
        yield at_least(f"{case}: without decay, the same over the growth of ‖θ₀‖ + Σ η",
                       (went.lead / went.ceiling).median(), near)  # fmt: skip
        yield at_least(f"{case}: growth without decay over that with it",
                       went.lead.median() / grown.lead.median(), 1.0)  # fmt: skip
    count = table.groupby("case").seed.nunique().sum()
    yield Premises(
        int(count),
        f"{count} runs of optimizers whose steps have norm η, separable at the best tokens",
    )


def _growth(rows: Table, half: int, last: int) -> Table:
    """Each instance's values at the last step over those at half of the steps."""
    by_step = rows.set_index(["step", "seed"])[["lead", "ceiling"]]
    return by_step.loc[last] / by_step.loc[half]


def _cases(weight: float, factored: float) -> list[tuple[str, float]]:
    """Every case with the decay of its model, and without."""
    decay = {"weight": weight, "factored": factored}
    return [(case, value) for case in CASES for value in (decay[case.split()[0]], 0.0)]


STUDY_CEILING = Study(
    id="beyond.logit-ceiling",
    title="Weight decay puts a ceiling on logits",
    kind="question",
    source="derived",
    statement="For an optimizer whose steps have norm η, decoupled decay λ keeps the parameters "
    "below "
    "R = ‖θ₀‖Π(1−λη) + (1 − Π(1−λη))/λ in that norm, so the least selection gap never exceeds "
    "the best margin times R (times R_K R_Q for factors). With steps falling like t^−½ runs come "
    "near this ceiling and stop there, while without decay the logits go on growing. With "
    "constant steps they stop lower: sign descent at .70 of it, factors at .74 to .80.",
    family="sphere",
    grid={"case decay": _cases(0.02, 0.1)},
    run={"n": 5, "T": 4, "d": 5, "equal_scores": True, "steps": 6000, "start": 1},
    seeds=10,
    measure=measure_ceiling,
    checks=checks_ceiling,
    gap=1e-6,
    # Near: nine tenths.
    thresholds={"attained": 0.9},
    quick={
        "grid": {"case decay": _cases(0.04, 0.2)},
        "seeds": 3,
        "run": {"steps": 1500},
    },
    figure={
        "kind": "curves",
        "x": "step",
        "value": {"lead": "gap", "ceiling": "ceiling"},
        "lines": "decay",
        "panels": "case",
        "band": "half",
        "ylabel": "least selection gap (median, middle half)",
    },
)


STUDIES = (STUDY_NORMS, STUDY_FACTORS, STUDY_CEILING)

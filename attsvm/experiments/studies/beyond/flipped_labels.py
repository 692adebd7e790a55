"""Beyond: where labels are flipped, a solution keeps noise, and still finds what is relevant."""

from __future__ import annotations

from typing import Any

from attsvm.experiments.study import Checks, Premises, Study, Table, at_least, equals, info, mostly

# Inputs of an instance.
_N = 20


def checks(table: Table, thresholds: Any) -> Checks:
    """Every solution keeps the noise of flipped inputs; norms and shares of fresh inputs."""
    yield equals("problems without a certified solution", (~table.separable).sum(), 0)
    kept = (table.flipped_relevant * table.flipped).sum().round()
    yield equals("flipped inputs that keep their relevant token", kept, 0)
    clean = _N - table.flipped
    yield at_least("share of clean inputs that keep theirs",
                   (table.clean_relevant * clean).sum() / clean.sum(), 0.99)  # fmt: skip
    places = {place: rows.set_index("seed") for place, rows in table.groupby(["flip", "signal"])}
    none, most = table.flip.min(), table.flip.max()
    strong = table.signal.max()
    dearer = places[most, strong].least_norm / places[none, strong].least_norm
    yield at_least(f"signal {strong:g}: median norm with flips over that without", dearer.median(),
                   thresholds["dearer"])  # fmt: skip
    for flip in table.flip.unique():
        asked = 0.99 if flip == none else thresholds["found"].get(f"{flip:g}")
        what = f"flips {flip:g}, signal {strong:g}: median share of fresh inputs attended"
        share = places[flip, strong].fresh.median()
        yield info(what, share) if asked is None else at_least(what, share, asked)
    worse = places[most, strong].fresh < places[none, strong].fresh
    yield mostly(f"fewer fresh inputs with flips {most:g} than without", worse)
    yield Premises(
        len(table), f"{len(table)} instances, {table.flipped.sum()} inputs with flipped labels"
    )


STUDY = Study(
    id="beyond.flipped-labels",
    title="A max-margin solution keeps the noise of flipped inputs, and still finds the relevant",
    kind="question",
    source="measured",
    statement="One relevant token among noise tokens, some labels flipped, d > n(T − 1): the best "
    "tokens under the given labels can always be separated, those of flipped inputs are noise "
    "tokens, and at several times the norm. With a tenth or a fifth of the labels flipped the same "
    "solution still attends to the relevant token of nine in ten fresh inputs or more.",
    family="flipped-labels",
    grid={"flip": [0.0, 0.1, 0.2, 0.4], "signal": [0.5, 1.0, 2.0, 4.0]},
    run={"n": _N, "T": 5, "d": 100, "fresh": 200},
    seeds=30,
    measure="kept-tokens",
    checks=checks,
    gap=1e-8,
    thresholds={"dearer": 3.0, "found": {"0.1": 0.95, "0.2": 0.9}},
    quick={"grid": {"flip": [0.0, 0.2], "signal": [0.5, 4.0]}, "seeds": 10},
    figure={
        "kind": "curves",
        "x": "signal",
        "value": {"least_norm": "least norm", "fresh": "share of fresh inputs found"},
        "apart": True,
        "lines": "flip",
        "band": "half",
        "log": "x",
        "xlabel": "strength of the signal",
        "ylabel": "median, middle half",
    },
)

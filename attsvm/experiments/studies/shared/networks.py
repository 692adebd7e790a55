"""Networks trained on real data by several methods: rates tuned alike, one row for each record.

A plan has `fit` (the fields of a TrainConfig that all share), `tuning` (what tuning changes in
them), `methods`, `tuning_seeds`, and `look` (what is looked at in the networks that are compared).
A method has `fit` (what it changes), and `rates`, those that it tries from the one at `first_rate`
on, or `rate_of`, the method whose rate it takes. The seed of a row is that of its initial network
and of the order of its data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from attsvm.datasets.labelled import Labelled
from attsvm.experiments.group import Group
from attsvm.experiments.runner import kept
from attsvm.experiments.study import Checks, Premises, info
from attsvm.experiments.table import Columns

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from attsvm.torch.fitting import Moment
    from attsvm.torch.networks import Network

Plan = dict[str, Any]
Train = Callable[[Plan], Columns]
# What is looked at in a network: numbers by name.
Look = Callable[["Network"], dict[str, float]]
LETTERS = ("K", "Q", "V")
NETWORK = ["method", "seed"]
# A figure of means along training.
CURVES = {"kind": "curves", "x": "epoch", "middle": "mean"}
# Of the entries of new embeddings, whatever the default of the trainer is.
SPREAD = 0.1


# ---------------------------------------------------------------- training


def train_network(run: Plan, looking: Callable[[Plan, Labelled], Look]) -> Columns:
    """The records of one training run, with what is found in the network at each.

    run: {fit: the fields of a TrainConfig, look}; looking(run, data) makes the function that looks,
    unless `look` is empty.
    """
    import torch

    from attsvm.torch import config_of, fit

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same bits again on the same processor
    try:
        config = config_of(run["fit"]["task"], {"spread": SPREAD, **run["fit"]})
        data = data_of(**data_fields(run["fit"]))
        look: Look = looking(run, data) if run["look"] else lambda network: {}
        seen: list[dict[str, float]] = []

        @torch.no_grad()
        def watch(moment: Moment) -> None:
            if moment.record is not None or moment.step == 0:
                seen.append(look(moment.network.eval()))

        made = fit(config, data, watch=watch)
    finally:
        torch.set_num_threads(threads)
    rows = [record._asdict() | more for record, more in zip(made.records, seen, strict=True)]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {**columns, "collapsed": np.full(len(rows), made.collapsed)}


def data_fields(fit: Plan) -> Plan:
    """The fields of a TrainConfig that decide which data are read, and which words are known."""
    names = ("task", "source", "length", "vocabulary")
    return {name: fit[name] for name in fit if name in names or name.endswith("_count")}


@lru_cache(maxsize=4)
def data_of(task: str, **fields: Any) -> Labelled:
    """The data of a run."""
    from attsvm.torch import config_of, load_data

    return load_data(config_of(task, fields))


def weight_sizes(network: Network, level: float) -> dict[str, float]:
    """Of K, Q and V: how many entries are beyond a level."""
    out = {}
    for letter, layers in network.projections.items():
        W = np.abs(np.stack([w.detach().double().numpy() for w in layers]))
        out[f"{letter}_above"] = float((level < W).sum()) if np.isfinite(W).all() else np.nan
    return out


def network_rows(group: Group, method: str, plan: Plan, train: Train) -> Columns:
    """The records of a method from the initial networks of these seeds, at the rate it chooses.

    collapsed: of the run; tried: the runs that chose the rate, 0 where it is another method's.
    """
    from pandas import DataFrame, concat

    owner = plan["methods"][method].get("rate_of", method)
    rates = plan["methods"][owner]["rates"][plan["first_rate"] :]
    scores = {rate: _tuning_scores(owner, rate, plan, train) for rate in rates}
    rate = max(scores, key=lambda rate: float(np.mean(scores[rate])))  # the first of equal ones
    tried = sum(map(len, scores.values())) if owner == method else 0
    runs = [
        DataFrame(kept(train, {"fit": _fit(plan, method, rate, seed), "look": plan["look"]}))
        .assign(seed=seed)
        for seed in group.seeds
    ]  # fmt: skip
    table = concat(runs).assign(rate=rate, tried=tried)
    return {name: table[name].to_numpy() for name in table}


def _tuning_scores(method: str, rate: float, plan: Plan, train: Train) -> list[float]:
    """The best validation accuracy of each tuning run at this rate; 0 for one that collapsed."""
    fits = [_fit(plan, method, rate, seed) | plan["tuning"] for seed in plan["tuning_seeds"]]
    runs = [kept(train, {"fit": fit, "look": {}}) for fit in fits]
    return [0.0 if run["collapsed"][0] else float(run["valid_accuracy"].max()) for run in runs]


def _fit(plan: Plan, method: str, rate: float, seed: int) -> Plan:
    return {**plan["fit"], **plan["methods"][method]["fit"], "lr": rate, "seed": seed}


# ---------------------------------------------------------------- comparing


def networks_of(table: DataFrame, matched: float) -> DataFrame:
    """One row per network (method, seed): its last record, and what was on the way.

    chosen: the test accuracy at the record with the best validation accuracy, the initial network
    left out; matched: that where training accuracy first reaches this level, on the line between
    two records; matched_NAME: the other columns at the first record that reaches it. Where it is
    not reached these are nan.
    """
    runs = table.groupby(NETWORK, sort=False)
    ends = runs.tail(1).set_index(NETWORK)
    trained = table[table.step > 0]
    best = trained.loc[trained.groupby(NETWORK).valid_accuracy.idxmax()].set_index(NETWORK)
    ends["chosen"] = best.test_accuracy
    ends["matched"] = {key: _accuracy_at(run, matched) for key, run in runs}
    first = table[table.train_accuracy >= matched].groupby(NETWORK).head(1).set_index(NETWORK)
    return ends.join(first.add_prefix("matched_"))


def _accuracy_at(run: DataFrame, level: float) -> float:
    """The test accuracy where training accuracy first reaches this level; nan where it does not."""
    x, y = run.train_accuracy.to_numpy(), run.test_accuracy.to_numpy()
    reached = np.flatnonzero(x >= level)
    if not reached.size:
        return float("nan")
    part = slice(max(reached[0] - 1, 0), reached[0] + 1)
    return float(np.interp(level, x[part], y[part]))


def difference(what: str, one: Series, other: Series) -> Checks:
    """The mean of the paired differences and its 95 % interval by Student's t, not judged.

    Pairs with a nan are left out.
    """
    apart = (one - other).dropna()
    mean, half = apart.mean(), student.ppf(0.975, len(apart) - 1) * apart.sem()
    for name, x in (("mean", mean), ("from", mean - half), ("to", mean + half)):
        yield info(f"{what}: {name}", x)


def premises(table: DataFrame, what: str, judged: int = 0) -> Premises:
    """What the networks are, and how many runs there are; judged is 0 where nothing is judged."""
    methods = table.groupby("method")
    return Premises(
        judged,
        f"{what}; {table.seed.nunique()} initial networks for each method; "
        f"{methods.seed.nunique().sum()} runs compared and {methods.tried.first().sum()} to choose "
        "rates, this many and no more",
    )

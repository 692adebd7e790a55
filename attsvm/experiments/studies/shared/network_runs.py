"""Networks trained on real data by several methods: rates tuned alike, then the runs compared.

A config has `fit` (fields of a TrainConfig that all share), `tuning` (what tuning changes in it),
`methods` (what a method changes), `rates` of each method, `tuning_models` and `models` (seeds of
the initial networks and of the order of the data), `look`, `images` and `matched` (see
network_fits). Every method has as many rates, and each is tried from the same initial networks. A
method without rates takes that of the method which `same_rate` names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import Config, Result, Test, noted
from attsvm.experiments.studies.shared.network_fits import COLUMNS, LETTERS, fit_arrays
from attsvm.experiments.studies.shared.stored import TrainingRun, done, on_file

# Student's t for a two-sided interval of 95 %, by degrees of freedom; 1.96 beyond.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
# The weights of a run, at the end and at matched training accuracy.
WEIGHTS = tuple(f"{when}{letter}" for when in ("", "matched.") for letter in LETTERS)
_VALID = COLUMNS.index("valid_accuracy")


def tuning_runs(config: Config, method: str) -> list[TrainingRun]:
    """The runs that choose a method's rate, rate by rate, each from all initial networks."""
    return [
        TrainingRun(fit_arrays, _plan(config, method, rate, seed, tuning=True))
        for rate in config["rates"].get(method, ())
        for seed in config["tuning_models"]
    ]


def final_runs(config: Config, method: str, rate: float | None) -> list[TrainingRun]:
    """The runs that are compared; not ready while the rate is None."""
    return [
        TrainingRun(fit_arrays, _plan(config, method, rate, seed), ready=rate is not None)
        for seed in config["models"]
    ]


def _plan(
    config: Config, method: str, rate: float | None, seed: int, *, tuning: bool = False
) -> Config:
    fit = {**config["fit"], **config["methods"][method], "lr": rate, "seed": seed}
    if tuning:
        fit |= config["tuning"]
    look = 0 if tuning else config["look"]
    return {"fit": fit, "look": look, "images": config["images"], "matched": config["matched"]}


def all_runs(config: Config) -> list[TrainingRun]:
    """Every run of a config; those whose rate is not chosen yet are not ready."""
    found: list[TrainingRun] = []
    for method in config["methods"]:
        found += tuning_runs(config, method)
    for method in config["methods"]:
        own = config["same_rate"].get(method, method)
        tried = [on_file(run) for run in tuning_runs(config, own)]
        known = [float(_score(one)) for one in tried if one is not None]
        rate = _chosen(config, own, known) if len(known) == len(tried) else None
        found += final_runs(config, method, rate)
    return found


def _score(made: Result) -> Floats:
    """What tuning compares: the best validation accuracy of a run; 0 for one that collapsed."""
    best = np.nanmax(made["records"][:, _VALID])
    return np.where(made["collapsed"] > 0, 0.0, best)


def _chosen(config: Config, method: str, scores: Sequence[float] | Floats) -> float:
    """The rate with the best mean score; the first of equal ones."""
    rates = config["rates"][method]
    table = np.nan_to_num(np.asarray(scores, dtype=np.float64)).reshape(len(rates), -1)
    return float(rates[int(table.mean(axis=1).argmax())])


def compared_runs(config: Config, names: Iterable[str]) -> Result:
    """tuning.M (rates · networks,), rate.M and M.NAME (networks, ·) for every method M.

    names: what is kept of each run.
    """
    out: Result = {}
    for method in config["methods"]:
        runs = tuning_runs(config, method)
        if runs:
            name = f"tuning.{method}"
            out[name] = np.array([_score(done(run)) for run in runs])
            out[f"rate.{method}"] = np.asarray(_chosen(config, method, out[name]))
    for method in config["methods"]:
        rate = float(out[f"rate.{config['same_rate'].get(method, method)}"])
        made = [done(run) for run in final_runs(config, method, rate)]
        for name in names:
            out[f"{method}.{name}"] = np.stack([np.asarray(one[name], dtype=float) for one in made])
    return out


def column(result: Result, method: str, name: str) -> Floats:
    """One column (networks, records) of a method's records."""
    found: Floats = result[f"{method}.records"][:, :, COLUMNS.index(name)]
    return found


def chosen_accuracy(result: Result, method: str) -> Floats:
    """The test accuracy (networks,) at the record that validation chooses, from the records.

    The initial network is not among those to choose from; of equal ones it is the first.
    """
    valid, test = (column(result, method, f"{part}_accuracy")[:, 1:] for part in ("valid", "test"))
    place = np.nan_to_num(valid, nan=-1.0).argmax(axis=1)
    return np.take_along_axis(test, place[:, None], axis=1)[:, 0]


def accuracy_at(result: Result, method: str, level: float) -> Floats:
    """The test accuracy (networks,) where training accuracy first reaches this level.

    Between two records by the line through them; nan where it is not reached.
    """
    train, test = (column(result, method, f"{part}_accuracy") for part in ("train", "test"))
    out = np.full(len(train), np.nan)
    for b, (x, y) in enumerate(zip(train, test, strict=True)):
        reached = np.flatnonzero(x >= level)
        if reached.size:
            k = int(reached[0])
            low = x[k - 1] if k else level
            part = 1.0 if k == 0 or x[k] == low else (level - low) / (x[k] - low)
            out[b] = y[k] if k == 0 else y[k - 1] + part * (y[k] - y[k - 1])
    return out


def paired(one: Floats, other: Floats) -> tuple[float, float, float]:
    """(mean, lower end, upper end) of the paired differences, with 95 % by Student's t.

    Pairs with a nan are left out; nan when fewer than two are left.

    >>> import numpy as np
    >>> low, high = paired(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))[1:]
    >>> round(low, 3), round(high, 3)
    (-0.484, 4.484)
    """
    apart = np.asarray(one) - np.asarray(other)
    apart = apart[np.isfinite(apart)]
    if len(apart) < 2:
        return float("nan"), float("nan"), float("nan")
    t = _T95[len(apart) - 2] if len(apart) - 2 < len(_T95) else 1.96
    mean, half = apart.mean(), t * apart.std(ddof=1) / np.sqrt(len(apart))
    return float(mean), float(mean - half), float(mean + half)


def mean_and_sd(name: str, values: Floats) -> list[Test]:
    """The mean and the standard deviation of what is known of these values, noted."""
    known = values[np.isfinite(values)]
    sd = known.std(ddof=1) if known.size > 1 else np.nan
    return [noted(f"{name}, mean", known_mean(values)), noted(f"{name}, sd", sd)]


def known_mean(values: Floats) -> float:
    """The mean of what is known of these values; nan when nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")


def run_count(config: Config) -> str:
    """How many runs there are, in words."""
    tuning = sum(len(tuning_runs(config, method)) for method in config["methods"])
    finals = len(config["methods"]) * len(config["models"])
    return f"{finals} runs compared and {tuning} to choose rates, this many and no more"

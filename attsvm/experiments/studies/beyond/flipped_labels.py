"""Beyond: where labels are flipped, a solution keeps noise, and still finds what is relevant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    equals,
    noted,
    seeds_of,
)
from attsvm.experiments.studies.shared.flipped_labels import Flipped, flipped, fresh_share
from attsvm.experiments.studies.shared.majority import mostly
from attsvm.experiments.studies.shared.proof import recertified, saved_solutions, worst_gap
from attsvm.experiments.studies.shared.spaced_instances import problems
from attsvm.norms import norm_of
from attsvm.solvers.solve_many import solve_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Place = tuple[float, float]  # chance of a flip, strength of the signal


def _places(config: Config) -> list[Place]:
    return [(flip, signal) for flip in config["flips"] for signal in config["signals"]]


def _name(place: Place) -> str:
    return f"flip {place[0]:g} signal {place[1]:g}"


def _drawn(config: Config, place: Place) -> Flipped:
    return flipped(config["shape"], seeds_of(config), signal=place[1], flip=place[0])


def run(config: Config) -> Result:
    """The solutions of the best tokens under the given labels, at every place."""
    out: Result = {}
    for place in _places(config):
        drawn = _drawn(config, place)
        out |= saved_solutions(_name(place), solve_many(problems(drawn.stack, drawn.best())))
    return out


class FlippedValues(NamedTuple):
    """At one place: relevant tokens among those kept, of clean and of flipped inputs, with how many
    there are; the least norms (B,) and the shares of fresh inputs (B,), nan without a solution."""

    clean: tuple[int, int]
    turned: tuple[int, int]
    norms: Floats
    fresh: Floats
    certificates: list[Certificate]


def _seen(config: Config, result: Result, place: Place) -> FlippedValues:
    drawn = _drawn(config, place)
    best = drawn.best()
    found = recertified(_name(place), problems(drawn.stack, best), "frobenius", result)
    same = best == drawn.relevant
    fresh = [
        fresh_share(
            config["shape"], seed, signal=place[1], p=np.asarray(c.W)[:, 0], count=config["fresh"]
        )
        if c.W is not None
        else np.nan
        for c, seed in zip(found, seeds_of(config), strict=True)
    ]
    return FlippedValues(
        (int(same[~drawn.flips].sum()), int((~drawn.flips).sum())),
        (int(same[drawn.flips].sum()), int(drawn.flips.sum())),
        np.array([float(c.lower) if np.isfinite(c.upper) else np.nan for c in found]),
        np.array(fresh),
        found,
    )


def check(config: Config, result: Result) -> Finding:
    """Every solution keeps the noise of flipped inputs; norms and shares of fresh inputs."""
    seen = {place: _seen(config, result, place) for place in _places(config)}
    none, most = min(config["flips"]), max(config["flips"])
    weak, strong = min(config["signals"]), max(config["signals"])
    every = [c for s in seen.values() for c in s.certificates]
    clean, turned = (
        np.sum([getattr(s, name) for s in seen.values()], axis=0) for name in ("clean", "turned")
    )
    tests: list[Test] = [
        equals("problems without a certified solution", sum(c.W is None for c in every), 0),
        equals("flipped inputs that keep their relevant token", int(turned[0]), 0),
        at_least("share of clean inputs that keep theirs", clean[0] / clean[1], 0.99),
    ]
    for signal in config["signals"]:
        calm, loud = seen[none, signal], seen[most, signal]
        what = f"signal {signal:g}: median norm with flips over that without"
        tests.append(
            at_least(what, float(np.median(loud.norms / calm.norms)), config["dearer"])
            if signal == strong
            else noted(what, float(np.median(loud.norms / calm.norms)))
        )
    for flip in config["flips"]:
        for signal in (weak, strong):
            what = f"flips {flip:g}, signal {signal:g}: median share of fresh inputs attended"
            share = float(np.median(seen[flip, signal].fresh))
            asked = 0.99 if flip == none and signal == strong else config["found"].get(f"{flip:g}")
            judged = asked is not None and signal == strong
            tests.append(at_least(what, share, asked) if judged else noted(what, share))
    worse = seen[most, strong].fresh < seen[none, strong].fresh
    tests += [
        mostly(f"fewer fresh inputs with flips {most:g} than without", worse.tolist()),
        at_most("largest certified gap", worst_gap(every), norm_of("frobenius").tolerance),
    ]
    premises = (
        f"{len(every)} instances of (n, T, d) = {tuple(config['shape'])}, {int(turned[1])} inputs "
        f"with flipped labels; {config['fresh']} fresh inputs each"
    )
    return Finding(tuple(tests), premises, len(every), worst_gap(every))


def plot(config: Config, result: Result) -> Figure:
    """Norms and shares of fresh inputs over the strength of the signal."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, band, panels

    figure, axes = panels(2)
    for k, flip in enumerate(config["flips"]):
        seen = [_seen(config, result, (flip, signal)) for signal in config["signals"]]
        how = {"colour": CYCLE[k], "label": f"{flip:.0%} flipped"}
        band(axes[0], config["signals"], np.stack([s.norms for s in seen]), **how)
        band(axes[1], config["signals"], np.stack([s.fresh for s in seen]), **how)
    axes[0].set(yscale="log", ylabel="least norm", title="Flips are kept, at a price")
    axes[1].set(ylabel="share of fresh inputs", title="Fresh inputs whose relevant token is found")
    for ax in axes:
        ax.set(xscale="log", xlabel="strength of the signal")
    axes[1].legend(frameon=False, fontsize=7.5, loc="lower right")
    return figure


_FULL = {
    "shape": [20, 5, 100],
    "seeds": 30,
    "flips": [0.0, 0.1, 0.2, 0.4],
    "signals": [0.5, 1.0, 2.0, 4.0],
    "fresh": 200,
    "dearer": 3.0,
    "found": {"0.1": 0.95, "0.2": 0.9},
}

CLAIM = Claim(
    id="beyond.flipped-labels",
    title="A max-margin solution keeps the noise of flipped inputs, and still finds the relevant",
    kind="question",
    trust="measured",
    statement="One relevant token among noise tokens, some labels flipped, d > n(T − 1): the best "
    "tokens under the given labels can always be separated, those of flipped inputs are noise "
    "tokens, and at several times the norm. With a tenth or a fifth of the labels flipped the same "
    "solution still attends to the relevant token of nine in ten fresh inputs or more.",
    full=_FULL,
    quick={**_FULL, "seeds": 10, "flips": [0.0, 0.2], "signals": [0.5, 4.0]},
    run=run,
    check=check,
    plot=plot,
)

"""A: as a vision transformer trains, its attention weights grow and its attention sparsifies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import (
    Claim,
    Config,
    Finding,
    Result,
    Test,
    at_least,
    at_most,
    noted,
)
from attsvm.experiments.studies.shared.image_networks import FULL, QUICK
from attsvm.experiments.studies.shared.network_runs import (
    all_runs,
    compared_runs,
    run_count,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Read off a slide: at epochs 0, 100, …, 400, the sparsity and ‖W‖ in thousands.
_EPOCHS = (0, 100, 200, 300, 400)
_SPARSITY = (0.99, 0.605, 0.47, 0.25, 0.21)
_NORM = (0.28, 1.62, 5.5, 7.13, 7.57)
_MARKS = len(_EPOCHS)


def run(config: Config) -> Result:
    """Spread and size of attention at every record, and maps of sample images."""
    return compared_runs(config, ("records", "spread", "size", "maps"))


def _marks(values: Floats) -> Floats:
    """The values (networks, records) at the start, the quarters and the end of training."""
    places = np.linspace(0, values.shape[1] - 1, _MARKS).round().astype(int)
    return values[:, places]


def check(config: Config, result: Result) -> Finding:
    """Even at the start; falling from mark to mark while the weights grow, in every run."""
    method = config["judged"]
    spread, size = result[f"{method}.spread"][:, :, 0], result[f"{method}.size"]
    maps = result[f"{method}.maps"]
    falls, grows = np.diff(_marks(spread), axis=1), np.diff(_marks(size), axis=1)
    tests: list[Test] = [
        at_least("least spread at the start", spread[:, 0].min(), 0.9),
        at_most("largest change of spread from mark to mark", falls.max(), 0.0),
        at_least("least growth of ‖W‖ from mark to mark", grows.min(), 0.0),
        # A map shows the share of the first token's attention that is on patches.
        at_most("largest sum of a map", float(maps.sum(axis=3).max()), 1 + 1e-6),
        at_least("least entry of a map", float(maps.min()), 0.0),
    ]
    for name in config["methods"]:
        for k, epoch in enumerate(_EPOCHS):
            part = f"{k}/{_MARKS - 1} of training"
            seen = [result[f"{name}.spread"][:, :, j] for j in (0, 1)]
            tests += [
                noted(f"{name}: spread, {part} (published {_SPARSITY[k]:g}, epoch {epoch})",
                      _marks(seen[0])[:, k].mean()),
                noted(f"{name}: spread of the first token, {part}", _marks(seen[1])[:, k].mean()),
                noted(f"{name}: ‖W‖, {part} (published {_NORM[k]:g} thousand)",
                      _marks(result[f"{name}.size"])[:, k].mean()),
            ]  # fmt: skip
    shown = " / ".join(f"{x:.2f}" for x in _marks(spread).mean(axis=0))
    sizes = " / ".join(f"{x:.1f}" for x in _marks(size).mean(axis=0))
    reason = (
        f"Spread {shown} (published .99 / .605 / .47 / .25 / .21 over 400 epochs), ‖W‖ {sizes}: "
        "the shapes are compared, not the values, which are of another network, data and length."
    )
    fit = config["fit"]
    premises = (
        f"{fit['train_count']:,} Fashion-MNIST images, {fit['layers']} layers of width "
        f"{fit['width']}, {fit['epochs']} epochs of {method}, {len(config['models'])} initial "
        f"networks; {run_count(config)}"
    )
    return Finding(tuple(tests), premises, len(config["models"]), 0.0, reason)


def plot(config: Config, result: Result) -> Figure:
    """Spread and ‖W‖ over training beside the published points, and maps of sample images."""
    from attsvm.experiments.studies.shared.drawing import CYCLE, panels

    figure, (left, right, maps, other) = panels(2, rows=2)
    for k, method in enumerate(config["methods"]):
        name = method if method[0].isalpha() else f"p = {method}"
        for axes, part in ((left, "spread"), (right, "size")):
            values = result[f"{method}.{part}"]
            values = values[:, :, 0] if part == "spread" else values
            share = np.linspace(0, 1, values.shape[1])
            for row in values:
                axes.plot(share, row, color=CYCLE[k], alpha=0.35, linewidth=0.8)
            axes.plot(share, values.mean(axis=0), color=CYCLE[k], label=name)
    at = np.linspace(0, 1, _MARKS)
    left.plot(at, _SPARSITY, "s--", color="0.35", markersize=4, label="published")
    left.set(xlabel="share of training", ylabel="spread of attention", title="Spread")
    left.set_ylim(0, 1.05)
    left.legend(fontsize=6.5)
    right.set(xlabel="share of training", ylabel="‖W‖", title="Size of the attention weights")
    right.set_ylim(0, None)
    for axes, method in ((maps, config["judged"]), (other, "1.1")):
        name = method if method[0].isalpha() else f"p = {method}"
        _draw_maps(axes, result[f"{method}.maps"][0])
        axes.set(xlabel="quarters of training", ylabel="test image", title=f"Maps under {name}")
    return figure


def _draw_maps(axes: Axes, maps: Floats) -> None:
    """The first token's attention on the patches of sample images, by mark of training.

    maps: (records, images, patches); each is drawn by its own largest entry.
    """
    side = int(np.sqrt(maps.shape[2]))
    places = np.linspace(0, len(maps) - 1, _MARKS).round().astype(int)
    count, step = maps.shape[1], side + 1
    whole = np.full((count * step - 1, _MARKS * step - 1), np.nan)
    for i in range(count):
        for k, place in enumerate(places):
            one = maps[place, i].reshape(side, side)
            whole[i * step : i * step + side, k * step : k * step + side] = one / one.max()
    axes.imshow(whole, cmap="Blues", vmin=0, vmax=1)
    middle = (side - 1) / 2
    axes.set_xticks(middle + step * np.arange(_MARKS), [str(k) for k in range(_MARKS)])
    axes.set_yticks(middle + step * np.arange(count), [str(i + 1) for i in range(count)])
    axes.grid(False)


CLAIM = Claim(
    id="A.sparsification",
    title="Attention sparsifies as a vision transformer trains",
    kind="figure",
    trust="read",
    statement="As a vision transformer trains, the norm of its attention weights grows and its "
    "attention, even at the start, sparsifies from quarter to quarter of the training.",
    full={**FULL, "judged": "Adam"},
    quick={**QUICK, "judged": "Adam"},
    run=run,
    check=check,
    plot=plot,
    differs="Fashion-MNIST and a small network in place of CIFAR-10, for fewer epochs. The formula "
    "is not on the slide: ‖s‖₁²/‖s‖₂² by the number of tokens is as recalled; W is K_hᵀ Q_h over "
    "all heads and layers.",
    needs=("torch", "fashion"),
    runs=all_runs,
    reference="tarzanagh2023maxmargin",
    numbered="slides",
    size="12 of 400 epochs; a smaller network, other images",
)

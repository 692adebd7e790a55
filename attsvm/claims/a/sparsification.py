"""A: as a vision transformer trains, its attention weights grow and its attention sparsifies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attsvm.claims.claim import Claim, Config, Finding, Result, Test, at_least, at_most, noted
from attsvm.claims.shared.image_networks import FULL, QUICK
from attsvm.claims.shared.network_runs import all_runs, compared_runs, record_shape, run_count, sound
from attsvm.ground.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Read off a slide: at epochs 0, 100, …, 400, the sparsity and ‖W‖ in thousands.
_EPOCHS = (0, 100, 200, 300, 400)
_SPARSITY = (0.99, 0.605, 0.47, 0.25, 0.21)
_NORM = (0.28, 1.62, 5.5, 7.13, 7.57)
_MARKS = len(_EPOCHS)


def run(config: Config) -> Result:
    """Spread and size of attention at every record, and maps of sample images."""
    R = record_shape(config)[0]
    patches = (28 // config["fit"]["patch"]) ** 2
    shapes = {"spread": (R, 2), "size": (R,), "maps": (R, config["images"], patches)}
    return compared_runs(config, {"records": record_shape(config), **shapes})


def _marks(values: Floats) -> Floats:
    """The values (networks, records) at the start, the quarters and the end of training."""
    places = np.linspace(0, values.shape[1] - 1, _MARKS).round().astype(int)
    return values[:, places]


def check(config: Config, result: Result) -> Finding:
    """Even at the start; falling from mark to mark while the weights grow, in every run."""
    method = config["judged"]
    spread, size = result[f"{method}.spread"][:, :, 0], result[f"{method}.size"]
    falls, grows = np.diff(_marks(spread), axis=1), np.diff(_marks(size), axis=1)
    tests: list[Test] = [
        *sound(config, result),
        at_least("least spread at the start", spread[:, 0].min(), 0.9),
        at_most("largest change of spread from mark to mark", falls.max(), 0.0),
        at_least("least growth of ‖W‖ from mark to mark", grows.min(), 0.0),
        # A map shows the share of the first token's attention that is on patches.
        at_most("largest sum of a map", float(result[f"{method}.maps"].sum(axis=3).max()), 1 + 1e-6),
        at_least("least entry of a map", float(result[f"{method}.maps"].min()), 0.0),
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
        f"Spread {shown} (published .99 / .605 / .47 / .25 / .21 over 400 epochs), ‖W‖ {sizes}: the "
        "shapes are compared, not the values, which are of another network, data and length."
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
    from matplotlib.figure import Figure as New

    from attsvm.claims.shared.drawing import CYCLE
    from attsvm.figures.style import DPI, SIZE

    figure = New(figsize=(SIZE[0], SIZE[1] * 1.9), dpi=DPI, layout="constrained")
    rows = figure.subfigures(2, 1, height_ratios=(1.1, 1.0))
    left, right = rows[0].subplots(1, 2)
    share = np.linspace(0, 1, record_shape(config)[0])
    at = np.linspace(0, 1, _MARKS)
    for k, method in enumerate(config["methods"]):
        name = method if method[0].isalpha() else f"p = {method}"
        for axes, values in ((left, result[f"{method}.spread"][:, :, 0]), (right, result[f"{method}.size"])):
            for row in values:
                axes.plot(share, row, color=CYCLE[k], alpha=0.35, linewidth=0.8)
            axes.plot(share, values.mean(axis=0), color=CYCLE[k], label=name)
    left.plot(at, _SPARSITY, "s--", color="0.35", markersize=4, label="published")
    left.set(xlabel="share of training", ylabel="spread of attention", ylim=(0, 1.05), title="Spread")
    left.legend(fontsize=6.5)
    right.set(xlabel="share of training", ylabel="‖W‖", title="Size of the attention weights")
    right.set_yscale("log")
    _draw_maps(rows[1], config, result)
    return figure


def _draw_maps(part, config: Config, result: Result) -> None:  # type: ignore[no-untyped-def]
    """The first token's attention on the patches of sample images, by mark of training."""
    maps = result[f"{config['judged']}.maps"][0]
    side = int(np.sqrt(maps.shape[2]))
    places = np.linspace(0, len(maps) - 1, _MARKS).round().astype(int)
    count = min(config["images"], 3)
    grid = part.subplots(count, _MARKS)
    for i in range(count):
        for k, place in enumerate(places):
            axes = grid[i][k]
            axes.imshow(maps[place, i].reshape(side, side), cmap="Blues", vmin=0)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(False)
            if i == 0:
                axes.set_title(f"{k}/{_MARKS - 1} of training", fontsize=7)
            axes.set_xlabel(f"image {i + 1}", fontsize=6.5)


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
    "is not on the slide: ‖s‖₁²/‖s‖₂² by the number of tokens is as recalled; W is K_hᵀ Q_h over all "
    "heads and layers.",
    needs=("torch", "fashion"),
    runs=all_runs,
    reference="tarzanagh2023maxmargin",
)

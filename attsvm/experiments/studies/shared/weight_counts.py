"""How many weights of K, Q and V are above a level, and how they are spread: what claims count."""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.studies.claim import Config, Result, Test, noted
from attsvm.experiments.studies.shared.network_fits import LETTERS
from attsvm.experiments.studies.shared.network_runs import known_mean, mean_and_sd, paired


def above(result: Result, method: str, letter: str, level: float, when: str = "") -> Floats:
    """How many |entries| of a matrix are above the level, in each run; nan where it is unknown."""
    W = np.abs(result[f"{method}.{when}{letter}"].reshape(len(result[f"{method}.{letter}"]), -1))
    return np.where(np.isnan(W).any(axis=1), np.nan, (level < W).sum(axis=1))


def spread(result: Result, method: str, letter: str, when: str = "") -> Floats:
    """‖w‖₁²/(n ‖w‖₂²) of each run: 1 when all entries are of one size, 1/n when one is not 0."""
    W = np.abs(result[f"{method}.{when}{letter}"].reshape(len(result[f"{method}.{letter}"]), -1))
    return np.asarray(W.sum(axis=1) ** 2 / (W.shape[1] * (W**2).sum(axis=1)))


def sparser(config: Config, result: Result, one: str, other: str) -> list[Test]:
    """How many more entries are above the level under `one`: of each matrix, with 95 %; noted."""
    out = []
    for letter in LETTERS:
        counts = [above(result, m, letter, config["level"]) for m in (one, other)]
        mean, _, high = paired(*counts)
        out.append(noted(f"{letter}: {one} less {other}, upper end of 95 %", high))
        out.append(noted(f"{letter}: {one} less {other}, mean", mean))
    return out


def counted(config: Config, result: Result, methods: list[str]) -> list[Test]:
    """The counts and the spreads of every method, at the end and at matched training accuracy."""
    out: list[Test] = []
    for method in methods:
        for when, words in (("", "at the end"), ("matched.", "at matched accuracy")):
            for letter in LETTERS:
                counts = above(result, method, letter, config["level"], when)
                out += mean_and_sd(f"{method}: {letter} above the level, {words}", counts)
                share = known_mean(spread(result, method, letter, when))
                out.append(noted(f"{method}: {letter} spread, {words}", share))
    return out


def histograms(axes: Any, config: Config, result: Result, *, methods: list[str]) -> None:
    """A panel a matrix: how many entries are beyond each size, mean over the runs."""
    from attsvm.experiments.studies.shared.drawing import CYCLE

    top = max(
        float(np.nanquantile(np.abs(result[f"{m}.{letter}"]), 0.999))
        for m in methods
        for letter in LETTERS
    )
    edges = np.linspace(0, max(top, config["level"] * 1.5), 60)
    for panel, letter in zip(axes, LETTERS, strict=True):
        for k, method in enumerate(methods):
            W = np.abs(result[f"{method}.{letter}"])
            count = np.histogram(W, bins=edges)[0] / len(W)
            name = method if method[0].isalpha() else f"p = {method}"
            panel.stairs(np.maximum(count, 0.1), edges, color=CYCLE[k], label=name)
        panel.axvline(config["level"], color="0.6", linewidth=0.8)
        panel.set(xlabel=f"|{letter}|", title=letter, yscale="log", ylim=(0.1, None))
    axes[0].set_ylabel("entries")
    axes[0].legend(fontsize=6.5)

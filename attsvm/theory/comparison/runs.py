"""Comparison: runs on the same tokens, each beside the best margin in every norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import file_path, flag
from attsvm._utils.result import Result, Table, draw
from attsvm._utils.summary import Summary
from attsvm.certificate import Certificate
from attsvm.theory.outcome import Outcome
from attsvm.theory.proofs import Since
from attsvm.training.path import Path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Compared(Result):
    """One run of a comparison.

    path and outcome: as `train` and `outcome` give them, None where the optimizer cannot train the
    model; then `refused` says why. certificates: of the run's own selection, by norm. shares: along
    the run (R,), the certified share of the best margin in each norm; nan where there is none.
    correlation (R,): with the solution in the norm of the predicted limit. proved: the first record
    from which the run is proved to converge.
    """

    model: str
    optimizer: str
    lr: float
    path: Path | None = None
    outcome: Outcome | None = None
    certificates: dict[str, Certificate] = field(default_factory=dict)
    shares: dict[str, Floats] = field(default_factory=dict)
    correlation: Floats = field(default_factory=lambda: np.empty(0))
    proved: Since | None = None
    refused: str = ""

    @property
    def name(self) -> str:
        """Model, optimizer and step size in short."""
        return f"{self.model}, {self.optimizer}, lr {self.lr:g}"

    @property
    def norm(self) -> str | None:
        """The norm that theory names for the limit, None where it names none."""
        return None if self.outcome is None else self.outcome.limit.norm

    @property
    def last(self) -> dict[str, float]:
        """The margin share at the end, by norm."""
        return {norm: float(share[-1]) for norm, share in self.shares.items()}

    def _card(self) -> Summary:
        if self.path is None or self.outcome is None:
            return Summary("Compared", f"{self.name}: refused, {self.refused}")
        facts = {
            "state": self.outcome.state,
            "limit": self.norm or "no known norm",
            "correlation": self.outcome.correlation,
            **{f"share, {norm}": share for norm, share in self.last.items()},
            "proved since step": "not proved" if self.proved is None else self.proved.step,
        }
        return Summary("Compared", self.name, facts)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Table):
    """Runs on the same tokens, in the order they were asked for; norms: those compared in.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> found = attsvm.compare(
    ...     tokens, optimizers=["ngd", "sign"], models=["prompt"], head=[0.2, 0.7], steps=300
    ... )
    >>> found.names, found.norms
    (('ngd', 'sign'), ('frobenius', 'max', 'l1'))
    """

    runs: tuple[Compared, ...]
    norms: tuple[str, ...]

    @property
    def refused(self) -> tuple[Compared, ...]:
        """The runs whose optimizer cannot train their model."""
        return tuple(run for run in self.runs if run.path is None)

    @property
    def trained(self) -> tuple[Compared, ...]:
        """The runs that were trained."""
        return tuple(run for run in self.runs if run.path is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each run: what they have in common is left out."""
        given = [(run.model, run.optimizer, f"lr {run.lr:g}") for run in self.runs]
        shown = [k for k in range(3) if len({parts[k] for parts in given}) > 1] or [1]
        return tuple(", ".join(parts[k] for k in shown) for parts in given)

    def columns(self) -> dict[str, Any]:
        """A row per run: how it was trained, where it ended, its share of the best margin in each
        norm, the step from which it is proved to converge, and why it was refused."""
        ends = [run.outcome for run in self.runs]
        return {
            "model": [run.model for run in self.runs],
            "optimizer": [run.optimizer for run in self.runs],
            "lr": [run.lr for run in self.runs],
            "steps": [0 if run.path is None else int(run.path.steps[-1]) for run in self.runs],
            "state": ["refused" if end is None else end.state for end in ends],
            "limit": [run.norm for run in self.runs],
            "correlation": [math.nan if end is None else end.correlation for end in ends],
            "margin_share": [math.nan if end is None else end.margin_share for end in ends],
            **{
                f"share_{norm}": [run.last.get(norm, math.nan) for run in self.runs]
                for norm in self.norms
            },
            "proved_since": [math.nan if run.proved is None else run.proved.step
                             for run in self.runs],
            "loss": [math.nan if end is None else end.loss for end in ends],
            "refused": [run.refused for run in self.runs],
        }  # fmt: skip

    def plot(self, *, style: str = "screen") -> Figure:
        """How far each run is from the best margin in every norm, from its limit, and its proof.

        style: "screen", or "paper" for a column.
        """
        return draw("comparison", self, style=style)

    def save(self, folder: str | FilePath, *, force: bool = False) -> None:
        """Write a new folder in one move: comparison.json, and one .npz file per run.

        The files are those of `Path.save`. force: replace the folder of an earlier comparison.
        """
        from attsvm._utils.files import write_json
        from attsvm._utils.run_folder import RunFolder

        target = file_path(folder, "folder")
        with RunFolder(target, "comparison").replaced(force=flag(force, "force")) as place:
            table = self.columns()
            rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
            for row, file, run in zip(rows, self.files, self.runs, strict=True):
                row["file"] = file
                if run.path is not None and file is not None:
                    run.path.save(place / file)
            write_json(place / "comparison.json", {"norms": self.norms, "runs": rows})

    @property
    def files(self) -> tuple[str | None, ...]:
        """The name of each run's file in a saved comparison; None for one that was refused."""
        plain = [
            "".join(
                c if c.isalnum() or c in ".-" else "-" for c in f"{r.model}-{r.optimizer}-{r.lr:g}"
            )
            for r in self.runs
        ]
        wide = len(str(len(plain)))
        return tuple(
            None if run.path is None else f"{k:0{wide}d}-{name}.npz"
            for k, (name, run) in enumerate(zip(plain, self.runs, strict=True), start=1)
        )

    def _card(self) -> Summary:
        runs, rows = self.runs, self.columns()
        table: dict[str, Any] = {"optimizer": rows["optimizer"]}
        for name in ("model", "lr", "steps"):
            if len(set(rows[name])) > 1:
                table[name] = rows[name]
        table["state"] = [_WORDS.get(state, state) for state in rows["state"]]
        table["corr"] = [_short(value) for value in rows["correlation"]]
        for norm in self.norms:
            table[norm] = [_short(r.last.get(norm)) + "*" * (r.norm == norm) for r in runs]
        table["proved"] = ["" if run.proved is None else run.proved.step for run in runs]
        said = f"{len(self.trained)} runs, their certified share of the best margin in each norm"
        note = "*: the norm that theory names; proved: the step since which convergence is"
        if self.refused:
            note = "refused: " + "; ".join(f"{run.name}: {run.refused}" for run in self.refused)
        return Summary("Comparison", said, {}, table, note=note, most=17)


# States in few letters.
_WORDS = {"at a locally optimal selection": "local"}


def _short(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.4f}"

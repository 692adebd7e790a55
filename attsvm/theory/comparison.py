"""Comparison: runs on the same tokens, each beside the best margin in every norm."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import file_path, flag, function, positive, shown
from attsvm._utils.expected import listed as items
from attsvm._utils.progress import Progress
from attsvm._utils.result import Result, Summary, Table, draw
from attsvm.certificate import Certificate
from attsvm.errors import AttsvmError, BadTokens, ConvergenceWarning, Unsupported
from attsvm.norms import NORMS, norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory import measures
from attsvm.theory.convergence.prover import Since, proved_since
from attsvm.theory.limits import predict
from attsvm.theory.outcome import Outcome, outcome
from attsvm.training.config import plain_options, rate_of
from attsvm.training.models import SENTENCE_MODELS, Model, model_of
from attsvm.training.optimizers import OPTIMIZERS, Optimizer, RuleLike, optimizer_of
from attsvm.training.path import Path
from attsvm.training.train import train_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class ComparedRun(Result):
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

    @property
    def trends(self) -> dict[str, float]:
        """By norm, d log10(1 − share)/d log10(step) over the last two decades of steps.

        −1: what is missing falls tenfold in a decade. nan with fewer than three records.
        """
        if self.path is None:
            return {}
        steps = self.path.steps
        late = (steps > 0) & (steps * 100 >= steps[-1])
        x = np.log10(steps[late])
        return {norm: _slope(x, np.asarray(s)[late]) for norm, s in self.shares.items()}

    @property
    def nearest(self) -> str | None:
        """The norm with the largest share at the end: measured, not proved."""
        known = {norm: share for norm, share in self.last.items() if share > 0}
        return max(known, key=known.__getitem__) if known else None

    @property
    def alike(self) -> tuple[str, ...]:
        """The listed optimizers whose limit is in the nearest norm."""
        plain = (name for name in OPTIMIZERS if ":" not in name)
        return tuple(name for name in plain if predict(self.model, name).norm == self.nearest)

    def _card(self) -> Summary:
        if self.path is None or self.outcome is None:
            return Summary("ComparedRun", f"{self.name}: refused, {self.refused}")
        facts = {
            "state": self.outcome.state,
            "limit": self.norm or "no known norm",
            "correlation": self.outcome.correlation,
            **{f"share, {norm}": share for norm, share in self.last.items()},
            "nearest norm": f"{self.nearest or 'none'}, measured, not proved",
            "proved since step": "not proved" if self.proved is None else self.proved.step,
        }
        return Summary("ComparedRun", self.name, facts)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Table):
    """Runs on the same tokens, in the order they were asked for; norms: those compared in."""

    runs: tuple[ComparedRun, ...]
    norms: tuple[str, ...]

    @property
    def refused(self) -> tuple[ComparedRun, ...]:
        """The runs whose optimizer cannot train their model."""
        return tuple(run for run in self.runs if run.path is None)

    @property
    def trained(self) -> tuple[ComparedRun, ...]:
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
        norm, the norm of the largest, the trends, the step from which the gradient is below the
        floats of an optimizer that reads floats, the step from which the run is proved to converge,
        and why it was refused."""
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
            "nearest": [run.nearest for run in self.runs],
            **{
                f"trend_{norm}": [run.trends.get(norm, math.nan) for run in self.runs]
                for norm in self.norms
            },
            "underflow": [
                math.nan if run.path is None or run.path.underflow is None else run.path.underflow
                for run in self.runs
            ],
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
        for norm in self.norms:
            table[norm] = [
                _short(r.last.get(norm)) + _arrow(r.trends.get(norm)) + "*" * (r.norm == norm)
                for r in runs
            ]
        table["nearest"] = [
            f"{run.nearest} ({run.alike[0]})"
            if run.alike and run.alike[0] != run.nearest
            else run.nearest or ""
            for run in runs
        ]
        columns = {"proved_since": "proof", "underflow": "no float", "correlation": "corr"}
        for name, head in columns.items():
            if not np.isnan(rows[name]).all():
                table[head] = [_number(value) for value in rows[name]]
        said = f"{len(self.trained)} runs, their certified share of the best margin in each norm"
        note = (
            "*: the norm of theory; nearest (an optimizer with that limit): the largest share, "
            "measured, not proved; ↑ ↓: what is missing shrinks, grows over two decades of steps"
        )
        if self.refused:
            note = "refused: " + "; ".join(f"{run.name}: {run.refused}" for run in self.refused)
        return Summary("Comparison", said, {}, table, note=note, most=17)


# States in few letters.
_WORDS = {"at a locally optimal selection": "local"}


def _short(value: float | None) -> str:
    """A share, rounded down, without the leading zero."""
    if value is None or math.isnan(value):
        return ""
    return f"{math.floor(1000 * value) / 1000:.3f}".removeprefix("0")


def _number(value: float) -> str:
    """A step, or a correlation."""
    return "" if math.isnan(value) else f"{value:.0f}" if abs(value) > 1 else _short(value)


# A slope beyond this in log-log counts as a trend.
_TREND = 0.1


def _arrow(slope: float | None) -> str:
    """A sign for the trend of 1 − share."""
    if slope is None or not abs(slope) > _TREND:
        return ""
    return "↑" if slope < 0 else "↓"


def _slope(x: Floats, share: Floats) -> float:
    """The slope of log10(1 − share) over x, by least squares."""
    known = np.isfinite(share) & (share < 1)
    if known.sum() < 3:
        return math.nan
    return float(np.polyfit(x[known], np.log10(1 - share[known]), 1)[0])


# The norms without an exponent. A single column has one norm less often: see `_norms`.
_PLAIN = tuple(name for name in NORMS if name != "lP")
# Training takes this share of the time, about; solving in every norm takes the rest.
_TRAINING = 0.7


class RunConfig(NamedTuple):
    """One run to train: its model, optimizer, step size and head, and what else `train` takes."""

    model: str | Model
    optimizer: RuleLike
    lr: float
    head: Any = None
    more: dict[str, Any] = {}  # noqa: RUF012  never written to


def compare(
    tokens: Tokens,
    *,
    optimizers: Iterable[RuleLike] = ("ngd", "gd", "sign", "spectral"),
    lrs: Iterable[float] | None = None,
    models: Iterable[str | Model] = ("weight",),
    head: Any = None,
    steps: int = 1000,
    norms: Iterable[str] | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> Comparison:
    """Train every model by every optimizer with every step size, and compare the runs.

    An optimizer that cannot train a model is named in the result, and the others go on.

    Parameters
    ----------
    tokens : Tokens
        One instance with labels.
    optimizers, lrs, models : list
        All combinations are trained; without lrs each optimizer with its own step size, or 0.1.
    head : array (d,) or Head, optional
        As in `train`; models that train their own are not given it.
    steps : int, default: 1000
    norms : list of str, optional
        Norms to compare in; by default all without an exponent, and those that theory names for a
        run.
    progress : function, optional
        Called with the share done.
    **more
        What else `train` takes (loss, seed, init, width, schedule, decay, options), the same for
        all runs.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> both = attsvm.compare(
    ...     tokens, optimizers=["ngd", "sign"], models=["prompt"], head=[0.2, 0.7], steps=300
    ... )
    >>> [(run.optimizer, run.norm, run.last[run.norm] > 0.9) for run in both.runs]
    [('ngd', 'frobenius', True), ('sign', 'max', True)]
    """
    progress = function(progress, "progress")
    for name in ("start", "stop"):
        if more.get(name) is not None:
            raise Unsupported(f"{name} belongs to one run: train it alone, with attsvm.train")
    families = {"optimizers": listed(optimizers, "optimizers")}
    families["models"] = listed(models, "models")
    options = plain_options(more.get("options"))
    check_optimizers(families["optimizers"], options)
    rates = [] if lrs is None else [positive(lr, "lr") for lr in listed(lrs, "lrs")]
    asked = [
        RunConfig(model, optimizer, rate, head_for(head, model), dict(more))
        for model, optimizer in product(families["models"], families["optimizers"])
        for rate in rates or [rate_of(optimizer, options)]
    ]
    return compare_runs(tokens, asked, steps=steps, norms=norms, progress=progress)


def listed(given: Any, name: str) -> list[Any]:
    """What was given as a list; raises Unsupported where it is none, empty, or has one twice."""
    if isinstance(given, str | Optimizer | Model | float | int) or not isinstance(given, Iterable):
        raise Unsupported(f"{name} is {shown(given)}: give a list, such as {name}=[…]")
    found = items(given, name, of="values")
    if not found:
        raise Unsupported(f"{name} is empty: give at least one")
    names = [one if isinstance(one, str | float | int) else id(one) for one in found]
    twice = [one for one, count in Counter(names).items() if count > 1]
    if twice:
        raise Unsupported(f"{name} has {shown(twice[0])} twice: give each once")
    return found


def head_for(head: Any, model: str | Model) -> Any:
    """The head for a model: one that trains its own is given a name at most."""
    if isinstance(model, str) and model in SENTENCE_MODELS:
        raise Unsupported(f"{model} is a model of sentences: compare takes models of tokens")
    form = model_of(model)
    if form.layer is not None:
        raise Unsupported(
            f"{form.name} has no one matrix W: compare takes models that have, so train it alone"
        )
    return None if form.trains_head and not isinstance(head, str) else head


def check_optimizers(optimizers: Sequence[RuleLike], options: dict[str, Any]) -> None:
    """Raises Unsupported for an unknown optimizer, or options that do not fit all optimizers."""
    for optimizer in optimizers:
        if isinstance(optimizer, str):
            optimizer_of(optimizer)
    misfits = []
    for optimizer in optimizers if options else ():
        try:
            optimizer_of(optimizer, **options)
        except Unsupported:
            name = optimizer if isinstance(optimizer, str) else optimizer_of(optimizer).name
            misfits.append(name)
    if misfits and len(optimizers) > 1:
        raise Unsupported(
            f"option {', '.join(options)} does not fit {', '.join(misfits)}: train these apart, or "
            "leave it out"
        )


def compare_runs(
    tokens: Tokens,
    asked: Sequence[RunConfig],
    *,
    steps: int,
    norms: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """The Comparison of these runs; raises the first error where none can be trained."""
    if not isinstance(tokens, Tokens):
        raise BadTokens(f"compare takes Tokens, one instance: this is {type(tokens).__name__}")
    chosen = None if norms is None else [norm_of(name).name for name in listed(norms, "norms")]
    paths: list[Path | AttsvmError] = []
    for k, one in enumerate(asked):
        part = None if progress is None else partial(_report_part, progress, k, len(asked))
        try:
            form = {"model": one.model, "optimizer": one.optimizer, "lr": one.lr, "head": one.head}
            paths.append(train_tokens(tokens, **form, steps=steps, progress=part, **one.more))
        except AttsvmError as error:
            paths.append(error)
    errors = [path for path in paths if isinstance(path, AttsvmError)]
    if len(errors) == len(asked):
        raise errors[0]
    ends: list[Outcome | None] = []
    for path, one in zip(paths, asked, strict=True):
        if isinstance(path, AttsvmError):
            ends.append(None)
            continue
        # What overflows is inf or nan; a solve that stopped early says so in its certificate.
        with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ends.append(outcome(path, tokens, None if isinstance(one.head, str) else one.head))
    if chosen is None:
        # Of a single column the Frobenius, nuclear and spectral norm are one: it is listed once.
        named = [end.limit.norm for end in ends if end is not None and end.limit.norm is not None]
        one_column = ("nuclear", "spectral") if tokens.shape[1] == 1 else ()
        plain = [name for name in _PLAIN if name in named or name not in one_column]
        chosen = list(dict.fromkeys([*plain, *named]))
    solved: dict[Any, Certificate] = {}
    runs = []
    for k, (one, path, end) in enumerate(zip(asked, paths, ends, strict=True)):
        if isinstance(path, AttsvmError) or end is None:
            optimizer = one.optimizer
            runs.append(
                ComparedRun(
                    one.model if isinstance(one.model, str) else one.model.name,
                    optimizer if isinstance(optimizer, str) else optimizer_of(optimizer).name,
                    one.lr,
                    refused=" ".join(str(path).split()),
                )
            )
        else:
            runs.append(_measure(tokens, one, path, end, chosen, solved))
        if progress is not None:
            progress(_TRAINING + (1 - _TRAINING) * (k + 1) / len(asked))
    return Comparison(tuple(runs), tuple(chosen))


def _report_part(progress: Progress, k: int, count: int, done: float) -> None:
    """Report the progress of training run k of `count`."""
    progress(_TRAINING * (k + done) / count)


def _measure(
    tokens: Tokens,
    one: RunConfig,
    path: Path,
    end: Outcome,
    norms: Sequence[str],
    solved: dict[Any, Certificate],
) -> ComparedRun:
    """One run compared with the best margin of its own selection, in each norm."""
    W, best = path.matrices()[:, 0], end.certificate
    nothing = np.full(len(path.steps), np.nan)
    found: dict[str, Certificate] = {}
    shares = dict.fromkeys(norms, nothing)
    keep = Selection.of(tokens, end.selection)
    problem = None if best is None else best.problem
    if problem is None and (tokens.present() & ~keep.kept).any():
        problem = Problem.of(tokens, keep)
    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in norms:
            if problem is None:
                break
            key = (name, end.selection.tobytes(), problem.b.tobytes())
            if key not in solved:
                same = best is not None and best.norm.name == name
                solved[key] = best if best is not None and same else solve(problem, name)
            found[name] = solved[key]
            if found[name].W is not None:
                shares[name] = np.asarray(measures.margin_share(W, found[name]))
        direction, since = nothing, None
        if best is not None and best.W is not None:
            direction = np.asarray(measures.correlation(W, best))
        if end.proof is not None and end.proof.proved:
            since = proved_since(path, tokens, one.head)
    model, optimizer, lr = (path.config[name] for name in ("model", "optimizer", "lr"))
    return ComparedRun(model, optimizer, float(lr), path, end, found, shares, direction, since)

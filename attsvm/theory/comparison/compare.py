"""compare(): several ways of training on the same tokens, side by side in every norm.

Each run is trained as `train` would train it alone, bit for bit. Then the max-margin problem of
the tokens it selects is solved in every norm, and the run's margin set beside the best possible.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.expected import function, positive, shown
from attsvm._utils.expected import listed as items
from attsvm._utils.progress import Progress
from attsvm.certificate import Certificate
from attsvm.errors import AttsvmError, BadTokens, ConvergenceWarning, Unsupported
from attsvm.norms import NORMS, norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory import measures
from attsvm.theory.comparison.runs import Compared, Comparison
from attsvm.theory.outcome import Outcome, outcome
from attsvm.theory.proofs import proved_since
from attsvm.training.config import plain_options
from attsvm.training.models import SENTENCE_MODELS, Model, model_of
from attsvm.training.optimizers import Optimizer, RuleLike, optimizer_of
from attsvm.training.path import Path
from attsvm.training.train import train_tokens

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
    lrs: Iterable[float] = (0.1,),
    models: Iterable[str | Model] = ("weight",),
    head: Any = None,
    steps: int = 1000,
    norms: Iterable[str] | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> Comparison:
    """The Comparison of every model trained by every optimizer with every step size.

    head: as in `train`; models that train their own are not given it. norms: those to compare in;
    all without an exponent, and those that theory names for a run, unless given. more: what else
    `train` takes (loss, seed, init, width, schedule, decay, options), the same for all runs. An
    optimizer that cannot train a model is named in the result, and the others go on.

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
    families = {"optimizers": listed(optimizers, "optimizers"), "lrs": listed(lrs, "lrs")}
    families["models"] = listed(models, "models")
    options = plain_options(more.get("options"))
    check_optimizers(families["optimizers"], options)
    asked = [
        RunConfig(model, optimizer, positive(lr, "lr"), own_head(head, model), dict(more))
        for model, optimizer, lr in product(
            families["models"], families["optimizers"], families["lrs"]
        )
    ]
    return compared(tokens, asked, steps=steps, norms=norms, progress=progress)


def listed(given: Any, name: str) -> list[Any]:
    """What was given as a list; raises Unsupported where it is none, empty, or has one twice."""
    if isinstance(given, str | Optimizer | Model | float | int) or not isinstance(given, Iterable):
        raise Unsupported(f"{name} is {shown(given)}: give a list, such as {name}=[…]")
    found = items(given, name, of="values")
    if not found:
        raise Unsupported(f"{name} is empty: give at least one")
    twice = [one for one, count in Counter(map(_hashable, found)).items() if count > 1]
    if twice:
        raise Unsupported(f"{name} has {shown(twice[0])} twice: give each once")
    return found


def _hashable(one: Any) -> Any:
    return one if isinstance(one, str | float | int) else id(one)


def check_optimizers(optimizers: Sequence[RuleLike], options: dict[str, Any]) -> None:
    """Raises Unsupported for an unknown optimizer, or options that do not fit all optimizers."""
    for optimizer in optimizers:
        if isinstance(optimizer, str):
            optimizer_of(optimizer)
    if not options:
        return
    misfits = {}
    for optimizer in optimizers:
        try:
            optimizer_of(optimizer, **options)
        except Unsupported as error:
            misfits[optimizer if isinstance(optimizer, str) else optimizer_of(optimizer).name] = (
                error
            )
    if misfits and len(optimizers) > 1:
        word = ", ".join(options)
        raise Unsupported(
            f"option {word} does not fit {', '.join(misfits)}: train these apart, or leave it out"
        )


def own_head(head: Any, model: str | Model) -> Any:
    """The head for a model: one that trains its own is given a name at most."""
    if isinstance(model, str) and model in SENTENCE_MODELS:
        raise Unsupported(f"{model} is a model of sentences: compare takes models of tokens")
    return None if model_of(model).trains_head and not isinstance(head, str) else head


def compared(
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
        paths.append(_trained(tokens, one, steps, _part(progress, k, len(asked))))
    errors = [path for path in paths if isinstance(path, AttsvmError)]
    if len(errors) == len(asked):
        raise errors[0]
    ends = [
        None if isinstance(path, AttsvmError) else _ended(path, tokens, one)
        for path, one in zip(paths, asked, strict=True)
    ]
    names = _norms(tokens, [end for end in ends if end is not None]) if chosen is None else chosen
    solved: dict[Any, Certificate] = {}
    runs = []
    for k, (one, path, end) in enumerate(zip(asked, paths, ends, strict=True)):
        if isinstance(path, AttsvmError) or end is None:
            runs.append(Compared(_model_name(one.model), _optimizer_name(one.optimizer), one.lr,
                                 refused=" ".join(str(path).split())))  # fmt: skip
        else:
            runs.append(_measured(tokens, one, path, end, names, solved))
        if progress is not None:
            progress(_TRAINING + (1 - _TRAINING) * (k + 1) / len(asked))
    return Comparison(tuple(runs), tuple(names))


def _trained(
    tokens: Tokens, one: RunConfig, steps: int, progress: Progress | None
) -> Path | AttsvmError:
    """The path of one run, or why there is none."""
    try:
        return train_tokens(
        tokens, model=one.model, optimizer=one.optimizer, lr=one.lr, head=one.head,
                           steps=steps, progress=progress, **one.more)  # fmt: skip
    except AttsvmError as error:
        return error


def _ended(path: Path, tokens: Tokens, one: RunConfig) -> Outcome:
    """The outcome of one run; what overflows is inf or nan in it."""
    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate says it
        return outcome(path, tokens, None if isinstance(one.head, str) else one.head)


def _norms(tokens: Tokens, ends: Sequence[Outcome]) -> list[str]:
    """Every norm without an exponent, then those that theory names.

    Of a single column the Frobenius, the nuclear and the spectral norm are one: it stands once.
    """
    named = [end.limit.norm for end in ends if end.limit.norm is not None]
    plain = list(_PLAIN)
    if tokens.shape[1] == 1:
        plain = [name for name in plain if name in named or name not in ("nuclear", "spectral")]
    return list(dict.fromkeys([*plain, *named]))


def _measured(
    tokens: Tokens,
    one: RunConfig,
    path: Path,
    end: Outcome,
    norms: Sequence[str],
    solved: dict[Any, Certificate],
) -> Compared:
    """One run set beside the best margin of its own selection, in each norm."""
    W = path.matrices()[:, 0]
    nothing = np.full(len(path.steps), np.nan)
    found: dict[str, Certificate] = {}
    shares = dict.fromkeys(norms, nothing)
    problem = _problem(tokens, end)
    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if problem is not None:
            for name in norms:
                key = (name, end.selection.tobytes(), problem.b.tobytes())
                if key not in solved:
                    known = end.certificate
                    same = known is not None and known.norm.name == name
                    solved[key] = known if known is not None and same else solve(problem, name)
                found[name] = solved[key]
                if found[name].W is not None:
                    shares[name] = np.asarray(measures.margin_share(W, found[name]))
        best = end.certificate
        direction = nothing
        if best is not None and best.W is not None:
            direction = np.asarray(measures.correlation(W, best))
        since = None
        if end.proof is not None and end.proof.proved:
            since = proved_since(path, tokens, one.head)
    return Compared(
        path.config["model"],
        path.config["optimizer"],
        float(path.config["lr"]),
        path,
        end,
        found,
        shares,
        direction,
        since,
    )


def _problem(tokens: Tokens, end: Outcome) -> Problem | None:
    """The max-margin problem of a run's selection; None where nothing is left to separate."""
    if end.certificate is not None:
        return end.certificate.problem
    keep = Selection.of(tokens, end.selection)
    return Problem.of(tokens, keep) if (tokens.present() & ~keep.kept).any() else None


def _model_name(model: str | Model) -> str:
    return model if isinstance(model, str) else model.name


def _optimizer_name(optimizer: RuleLike) -> str:
    return optimizer if isinstance(optimizer, str) else optimizer_of(optimizer).name


def _part(progress: Progress | None, k: int, count: int) -> Progress | None:
    """Progress over the training of run k."""
    if progress is None:
        return None
    whole = progress
    return lambda done: whole(_TRAINING * (k + done) / count)

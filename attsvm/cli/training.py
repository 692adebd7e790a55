"""train: one run, several, or one on sentences, and its report.

Everything is checked before the first step, so that a refusal leaves nothing behind. `asked` has
every option of the command by name, `given` the names of those on the command line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import typer

from attsvm._utils.expected import one_of
from attsvm._utils.objects import is_outside, load_object
from attsvm._utils.progress import bar, working
from attsvm.api import train
from attsvm.cli.options import FAILED, read_pairs
from attsvm.cli.output import emit, leave, many, say, say_diverged
from attsvm.cli.problem_file import Archive, read_training_file
from attsvm.errors import BadTokens, Unsupported
from attsvm.theory.comparison import ComparedRun, compare
from attsvm.theory.convergence.prover import Since, proved_since, until_proved
from attsvm.theory.outcome import Outcome, outcome
from attsvm.training.config import choose_parts, rate_of
from attsvm.training.heads import Head, head_of
from attsvm.training.losses import Loss
from attsvm.training.models import Model, model_of, with_head
from attsvm.training.optimizers import Optimizer
from attsvm.training.path import Path

# What may be an object from a user's file, by kind.
KINDS: dict[str, type] = {"optimizer": Optimizer, "model": Model, "loss": Loss, "head": Head}
PARTS = ("model", "optimizer", "loss")
SHARED = ("seed", "init", "width", "heads", "schedule", "decay")
# What a saved run keeps: given again when it goes on, it must be as it was.
KEPT = (*PARTS, "options", "lr", *SHARED)


def run_tokens(asked: Mapping[str, Any], given: set[str]) -> None:
    """Train once on the tokens of a file, and report."""
    file, seed, start = asked["file"], asked["seed"], None
    archive = _read_tokens(asked)
    config = _read_config(asked, archive)
    parts = {name: read_part(asked[name], name) for name in PARTS}
    if asked["resume"] is not None:
        again = {"options" if name == "option" else name for name in given}
        wanted = {**config, **parts}
        start = _read_start(asked["resume"], {n: wanted[n] for n in KEPT if n in again})
        parts = choose_parts({n: parts[n] if n in given else "" for n in PARTS}, start)
        seed, config = start.config["seed"], {}
    head = _read_head(archive, asked["head"], parts["model"], seed)
    fixed = None if isinstance(head, str) else head
    begin = time.perf_counter()
    trained = {**asked, **parts} if start is None else start.config
    if trained["lr"] is None:
        trained["lr"] = rate_of(parts["optimizer"], config["options"])
    stop = _until(archive, parts, fixed, asked, trained)
    how = {"head": head, "steps": asked["steps"], "start": start, "stop": stop}
    how["threads"] = asked["threads"]
    with bar("training") as progress:
        try:
            path = train(archive.tokens, progress=progress, **how, **config, **parts)
        except (BadTokens, Unsupported) as error:
            if start is None:
                raise
            raise BadTokens(f"{asked['resume']}: {error}") from error
    if asked["out"] is not None:
        path.save(asked["out"], force=asked["force"])
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is null in the report
        found = outcome(path, archive.tokens, fixed, norm=asked["norm"])
    proved = None
    if found.proof is not None and found.proof.proved:
        custom = parts["model"] if isinstance(parts["model"], Model) else None
        proved = proved_since(path, archive.tokens, fixed, model=custom)
    if asked["proof"] is not None:
        if found.proof is None:
            raise Unsupported(
                "--proof: no theorem of convergence covers this run; one covers weight and prompt "
                "models with a fixed linear prediction head, optimizers gd, ngd, mirror:P, "
                "nmirror:P, no weight decay"
            )
        found.proof.save(asked["proof"], force=asked["force"])
    if asked["figure"] is not None:
        from attsvm.plotting.training import path_picture

        _write(path_picture(path, found=found, proved=proved, look=asked["style"]), asked)
    report = {
        **_describe(path, found, proved),
        "head": "trained" if fixed is None else head_of(fixed, archive.tokens.d).name,
        "seconds": time.perf_counter() - begin,
    }
    title = f"{path.config['model']}, {path.config['optimizer']} on {file.name}, "
    title += f"{int(path.steps[-1]):,} steps"
    since = [] if proved is None else [f"  proved since step   {proved.step}"]
    emit(report, asked["json_"], title, repr(found), *since)
    say_diverged(path, "the run")
    if found.certificate is not None:
        leave(found.certificate)


def run_several(asked: Mapping[str, Any], chosen: Mapping[str, list[Any]]) -> None:
    """Train every combination of the chosen models, optimizers and step sizes, and report."""
    models = [read_part(text, "model") for text in chosen["model"]]
    trains = {model_of(model).trains_head for model in models}
    if asked["head"] is not None and len(trains) > 1:
        raise Unsupported("--head: of these models some train their own prediction head, some not")
    archive = _read_tokens(asked)
    fixed = next((model for model in models if not model_of(model).trains_head), models[0])
    begin = time.perf_counter()
    with bar("training") as progress:
        found = compare(
            archive.tokens,
            models=models,
            optimizers=[read_part(text, "optimizer") for text in chosen["optimizer"]],
            lrs=None if chosen["lr"] == [None] else chosen["lr"],
            head=_read_head(archive, asked["head"], fixed, asked["seed"]),
            steps=asked["steps"],
            progress=progress,
            threads=asked["threads"],
            loss=read_part(asked["loss"], "loss"),
            **{k: value for k, value in _read_config(asked, archive).items() if k != "lr"},
        )
    if asked["out"] is not None:
        found.save(asked["out"], force=asked["force"])
    if asked["figure"] is not None:
        _write(found.plot(style=asked["style"]), asked)
    ends = [run.outcome.certificate for run in found.trained if run.outcome is not None]
    states = {best.status: best for best in ends if best is not None}
    worst = next((s for s in ("infeasible", "stalled", "optimal") if s in states), "optimal")
    report = {
        "status": worst,
        "norms": list(found.norms),
        "runs": [_describe_compared(run) for run in found.runs],
        "out": None if asked["out"] is None else str(asked["out"]),
        "figure": None if asked["figure"] is None else str(asked["figure"]),
        "seconds": time.perf_counter() - begin,
    }
    said = f"{many(len(found.trained), 'run')} of {many(asked['steps'], 'step')}"
    emit(report, asked["json_"], f"{said} on {asked['file'].name}", repr(found))
    for run in found.trained:
        if run.path is not None:
            say_diverged(run.path, run.name)
    for run in found.refused:
        say(f"{run.name} was not trained: {run.refused}")
    if found.refused:
        raise typer.Exit(FAILED)
    if worst in states:
        leave(states[worst])


def run_sentences(asked: Mapping[str, Any], given: set[str]) -> None:
    """Train on the sentences of a file, both stages or one, and report."""
    from attsvm.next_token.order import orders
    from attsvm.next_token.realizable import realizability
    from attsvm.next_token.text import read_sentences
    from attsvm.next_token.training.outcome import sentence_outcome

    model, file = asked["model"], asked["file"]
    options = _read_options(asked["option"])
    names = ("collocations", "vocabulary", "limit", "prose", "lower", "shortest")
    begin = time.perf_counter()
    with working(f"reading {file.name}"):
        read = {name: asked[name] for name in names}
        data = read_sentences(file, strip=asked["strip_punctuation"], **read)
        every = orders(data)
        if model != "decoder":
            _check_sentences(data, realizability(data, every), ties=asked["ties"])
    run = _train_sentences(asked, given, data, options=options)
    with working("solving"):
        end = sentence_outcome(run, norm=asked["norm"], every=every)
    report = end.to_dict()
    report["seconds"] = time.perf_counter() - begin
    report["figure"] = None if asked["figure"] is None else str(asked["figure"])
    if asked["out"] is not None:
        run.save(asked["out"], force=asked["force"])
    report["unseen"], shown = None, [f"{model} on {file.name}", repr(end)]
    if report["proof"] is not None:
        shown.append(f"  convergence of W_kq: {report['proof']['message']}")
    if asked["unseen"] is not None:
        seen = report["unseen"] = end.ask_unseen(asked["unseen"], seed=asked["seed"]).to_dict()
        shown.append(
            f"  unseen sentences: {seen['sentences']}; {seen['wide']} have a gap of "
            f"{seen['gap']:g} or more, {seen['agreed']} of these are answered as the solution "
            f"says; {seen['ties']} are ties"
        )
    if asked["figure"] is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            _write(end.plot(style=asked["style"]), asked)
    emit(report, asked["json_"], *shown)
    for name, path in (("first", run.decoder), ("last", run.attention)):
        if path is not None:
            say_diverged(path, f"the {name} stage")
    leave(next(b for b in end.certificates.values() if b.status == report["status"]))


def _check_sentences(data: Any, found: Any, *, ties: bool) -> None:
    """Raises BadTokens when there is no sentence, or the data are not realizable and no ties are
    asked for."""
    if not data.size:
        raise BadTokens("there is no sentence of three or more tokens to train attention on")
    if found.realizable or (ties and not found.counts["no-collocations"]):
        return
    # The faults in the order of what a reader should hear first.
    first = {"no-collocations": 0, "contradiction": 1, "cycle": 2}
    worst = min(found.reasons, key=lambda fault: first.get(fault.kind, 3))
    more = sum(found.counts.values()) - 1
    said = worst.message
    if "--ties" not in said and worst.kind != "no-collocations":
        said = f"{said}; accept it with --ties"
    rest = f" (and {more} more: attsvm sentences lists them)" if more else ""
    raise BadTokens(f"not realizable: {said}{rest}")


def _train_sentences(asked: Mapping[str, Any], given: set[str], data: Any, **how: Any) -> Any:
    """The run that was asked for."""
    from attsvm.next_token.training.train import RATES, STEPS, SentenceRun, train, two_stages

    model = asked["model"]
    stage = 0 if model == "decoder" else 1
    lr = asked["lr"] if "lr" in given else RATES[stage] / float(np.sqrt(data.vocabulary))
    default = sum(STEPS) if model == "joint-next-token" else STEPS[stage]
    steps = asked["steps"] if "steps" in given else default
    how |= {name: asked[name] for name in ("seed", "init", "schedule", "decay", "readout")}
    how["optimizer"] = read_part(asked["optimizer"], "optimizer")
    with bar("training") as how["progress"]:
        if model == "next-token" and asked["readout"] != "mass":
            number = STEPS[0] if asked["decoder_steps"] is None else asked["decoder_steps"]
            rates = asked["decoder_lr"], lr
            return two_stages(data, steps=(number, steps), lr=rates, **how)
        path = train(data, model=model, lr=lr, steps=steps, **how)
    return SentenceRun.of(path, data)


def _describe(path: Path, found: Outcome, proved: Since | None) -> dict[str, Any]:
    """What a report of a path and its end holds."""
    return {
        **found.to_dict(),
        "proved_since": None if proved is None else proved.step,
        "steps": int(path.steps[-1]),
        "diverged": path.diverged,
        "underflow": path.underflow,
        "fails": [premise.name for premise in found.limit.failing],
    }


def _describe_compared(run: ComparedRun) -> dict[str, Any]:
    """What the report holds of one run: that of a single one, and its shares in every norm."""
    named = {"model": run.model, "optimizer": run.optimizer, "lr": run.lr}
    if run.path is None or run.outcome is None:
        return {**named, "refused": run.refused}
    ends = _describe(run.path, run.outcome, run.proved)
    return {**named, "refused": None, **ends, "shares": run.last}


def _write(figure: Any, asked: Mapping[str, Any]) -> None:
    from attsvm.plotting.style import write_figure

    write_figure(figure, asked["figure"])


def _until(
    archive: Archive,
    parts: dict[str, Any],
    head: Any,
    asked: Mapping[str, Any],
    config: Mapping[str, Any],
) -> Any:
    """A proof of convergence as the end of the run, where it is asked for."""
    until = asked["until"]
    if until is None:
        return None
    one_of(until, ("proved",), "--until")
    if head is None or (isinstance(head, Head) and head.vector is None):
        raise Unsupported(f"--until {until} needs a fixed linear prediction head")
    form = model_of(parts["model"])
    return until_proved(archive.tokens, head, {**config, "loss": parts["loss"]}, model=form)


def _read_tokens(asked: Mapping[str, Any]) -> Archive:
    """The problem file of a run, with the queries that --queries or --sequence make."""
    return read_training_file(
        asked["file"],
        queries=asked["queries"],
        sequence=asked["sequence"],
        causal=not asked["no_causal"],
    )


def _read_config(asked: Mapping[str, Any], archive: Archive) -> dict[str, Any]:
    """The options of `train` that are neither an object nor the head; of a file its start."""
    found = {name: asked[name] for name in (*SHARED, "lr")}
    if asked["init"] == "file":
        found["init"] = archive.start
    return found | {"options": _read_options(asked["option"])}


def read_part(text: str, kind: str) -> Any:
    """What an option names: the text itself, or the object that FILE.py:NAME holds.

    kind: optimizer, model, loss or head. Of an optimizer the function that makes it will do, or a
    class of torch.optim.Optimizer, which is wrapped.
    """
    if not is_outside(text):
        return text
    found = load_object(text, f"a {kind}")
    if kind == "optimizer" and isinstance(found, type) and find_spec("torch") is not None:
        from attsvm.torch import as_optimizer

        return partial(as_optimizer, found)
    if isinstance(found, KINDS[kind]) or (kind == "optimizer" and callable(found)):
        return found
    raise Unsupported(f"{text} is no {KINDS[kind].__name__}: it is {found!r}")


def _read_head(archive: Archive, name: str | None, model: str | Model, seed: int) -> Any:
    """The prediction head of the run: a Head, the vector of a linear one, or, where the model
    trains it, its name."""
    if model_of(model).trains_head:
        with_head(model_of(model), name or "linear")
        return name
    if name is not None and is_outside(name):
        return read_part(name, "head")
    if (
        name is None
        and model_of(model).layer is not None
        and np.ndim(archive.arrays.get("v", 0.0)) > 1
    ):
        return archive.arrays["v"]  # a row for each attention head
    return archive.head(name, seed)


def _read_options(texts: list[str] | None) -> dict[str, float | bool]:
    """The options of an optimizer from NAME=VALUE, a value a number, true or false."""
    found: dict[str, float | bool] = {}
    for name, value in read_pairs(texts, "momentum=0.9").items():
        try:
            found[name] = value == "true" if value in ("true", "false") else float(value)
        except ValueError as error:
            raise Unsupported(
                f"--option {name}={value}: {value!r} is no number, and neither true nor false"
            ) from error
    return found


def _read_start(file: Any, given: Mapping[str, Any]) -> Path:
    """The saved path to go on from; raises Unsupported where the command line differs from it."""
    path = Path.load(file)
    for name, value in given.items():
        had = path.config.get(name)
        if name == "init" and isinstance(value, dict):
            value = "given"
        custom = name in path.config.get("outside", ()) or not isinstance(value, str)
        if value != had and (name not in PARTS or not custom):
            flag = "--option" if name == "options" else f"--{name}"
            raise Unsupported(
                f"{flag} differs from the run in {file}, which had {had}: leave it out to go on "
                "as before"
            )
    return path

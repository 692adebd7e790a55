"""train: what a run is given, checked; one run, several, or one on sentences; and its report.

Everything is checked before the first step, so that a refusal leaves nothing behind. `asked` has
every option of the command by name, `given` the names of those on the command line.
"""

from __future__ import annotations

import codecs
import time
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import typer

from attsvm._utils.arrays import Floats, floats
from attsvm._utils.objects import is_outside, load_object
from attsvm._utils.progress import bar, working
from attsvm.api import train
from attsvm.cli.options import FAILED
from attsvm.cli.output import CODES, emit, facts, leave, limit_facts, many, say, say_diverged
from attsvm.cli.problem_file import Archive, read_problem, tokens_of
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.theory.comparison import (
    ComparedRun,
    Comparison,
    RunConfig,
    check_optimizers,
    compare_runs,
)
from attsvm.theory.convergence.prover import Since, proved_since, until_proved
from attsvm.theory.limits import predict
from attsvm.theory.outcome import Outcome, outcome, until_margin_share
from attsvm.training.config import OptimizerConfig, choose_parts, rate_of
from attsvm.training.heads import HEADS, Head, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import Model, model_of, with_head
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import evaluate
from attsvm.training.optimizers import Optimizer
from attsvm.training.path import Path
from attsvm.training.task import shapes_of

# The arrays of each head in a file, and how many axes they have.
ARRAYS: dict[str, dict[str, int]] = {
    "linear": {"v": 1},
    "relu": {"V": 2},
    "quadratic": {"v": 1, "penalty": 0},
}
# What may be an object from a user's file, by kind.
KINDS: dict[str, type] = {"optimizer": Optimizer, "model": Model, "loss": Loss, "head": Head}
PARTS = ("model", "optimizer", "loss")
# What a saved run keeps: given again when it goes on, it must be as it was.
KEPT = ("model", "optimizer", "options", "loss", "lr", "seed", "init", "width", "schedule", "decay")
SHARED = ("seed", "init", "width", "schedule", "decay")
# A run evaluated again at its end gives the recorded loss but for rounding.
_SAME = 1e-9
# What belongs to one run: the option, and what it is.
_ONE = {
    "proof": "--proof saves one proof",
    "resume": "--resume goes on with one run",
    "until": "--until ends one run",
    "norm": "--norm is for one run, several are compared in every norm",
}


def run_tokens(asked: Mapping[str, Any], given: set[str], parts: dict[str, Any]) -> None:
    """Train once on the tokens of a file, and report; parts: the model, optimizer and loss."""
    file, head, resume = asked["file"], asked["head"], asked["resume"]
    archive = _read_tokens(asked)
    options, lr = _read_options(asked["options"]), asked["lr"]
    config: dict[str, Any] = {
        **parts,
        "options": options,
        "lr": rate_of(parts["optimizer"], options) if lr is None else lr,
        **{name: asked[name] for name in SHARED},
    }
    start, seed = None, asked["seed"]
    if resume is not None:
        config["init"] = "given" if asked["init"] == "file" else asked["init"]
        start, parts = _read_start(resume, {n: config[n] for n in KEPT if n in given})
        seed = start.config["seed"]
    read = _read_head(archive, head, model=parts["model"], seed=seed)
    if start is not None:
        _check_start(start, parts, archive.tokens, read, file=resume)
    elif asked["init"] == "file":
        config["init"] = _read_init(archive, parts["model"])
    begin = time.perf_counter()
    with bar("training") as progress:
        path = train(
            archive.tokens,
            head=head if read is None else read,
            steps=asked["steps"],
            start=start,
            progress=progress,
            stop=_until(archive, parts, read, asked, config if start is None else start.config),
            **(config if start is None else parts),
        )
    if asked["out"] is not None:
        path.save(asked["out"], force=asked["force"])
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is null in the report
        found = outcome(path, archive.tokens, read, norm=asked["norm"])
    proved = None
    if found.proof is not None and found.proof.proved:
        custom = parts["model"] if isinstance(parts["model"], Model) else None
        proved = proved_since(path, archive.tokens, read, model=custom)
    if asked["proof"] is not None:
        if found.proof is None:
            raise Unsupported(
                "--proof: no theorem of convergence covers this run; one covers weight and prompt "
                "models with a fixed linear prediction head, optimizers gd, ngd, mirror:P, "
                "nmirror:P, no weight decay"
            )
        found.proof.save(asked["proof"], force=asked["force"])
    if asked["figure"] is not None:
        from attsvm.plotting.style import write_figure
        from attsvm.plotting.training import path_picture

        picture = path_picture(path, found=found, proved=proved, look=asked["style"])
        write_figure(picture, asked["figure"])
    report = {
        **_describe(path, found, proved),
        "head": "trained" if read is None else head_of(read, archive.tokens.d).name,
        "seconds": time.perf_counter() - begin,
    }
    title = f"{path.config['model']}, {path.config['optimizer']} on {file.name}"
    emit(report, asked["as_json"], facts(title, _facts(report)))
    say_diverged(path, "the run")
    if found.certificate is not None:
        leave(found.certificate)


def run_several(asked: Mapping[str, Any], chosen: Mapping[str, Sequence[Any]], loss: Any) -> None:
    """Train every combination of the chosen models, optimizers and step sizes, and report."""
    for name, said in _ONE.items():
        if asked[name] is not None:
            raise Unsupported(f"{said}: give one --model, one --optimizer and one --lr with it")
    for name, values in chosen.items():
        twice = [value for k, value in enumerate(values) if value in values[:k]]
        if twice:
            raise Unsupported(f"--{name} {twice[0]} is given twice: give each once")
    options = _read_options(asked["options"])
    optimizers = [read_part(text, "optimizer") for text in chosen["optimizer"]]
    models = [read_part(text, "model") for text in chosen["model"]]
    check_optimizers(optimizers, options)
    for model in models:
        model_of(model)
    archive = _read_tokens(asked)
    shared = {name: asked[name] for name in SHARED} | {"loss": loss, "options": options}
    runs = []
    for model in models:
        read = _read_head(archive, asked["head"], model=model, seed=asked["seed"])
        init = {"init": _read_init(archive, model)} if asked["init"] == "file" else {}
        head = asked["head"] if read is None else read
        runs += [
            RunConfig(
                model,
                optimizer,
                rate_of(optimizer, options) if rate is None else rate,
                head,
                {**shared, **init},
            )
            for optimizer, rate in product(optimizers, chosen["lr"])
        ]
    begin = time.perf_counter()
    with bar("training") as progress:
        found = compare_runs(archive.tokens, runs, steps=asked["steps"], progress=progress)
    if asked["out"] is not None:
        found.save(asked["out"], force=asked["force"])
    if asked["figure"] is not None:
        from attsvm.plotting.style import write_figure

        write_figure(found.plot(style=asked["style"]), asked["figure"])
    report = {
        "status": _worst(found),
        "norms": list(found.norms),
        "runs": [_describe_compared(run) for run in found.runs],
        "out": None if asked["out"] is None else str(asked["out"]),
        "figure": None if asked["figure"] is None else str(asked["figure"]),
        "seconds": time.perf_counter() - begin,
    }
    runs_said = f"{many(len(found.trained), 'run')} of {many(asked['steps'], 'step')}"
    emit(report, asked["as_json"], f"{runs_said} on {asked['file'].name}", repr(found))
    for run in found.trained:
        if run.path is not None:
            say_diverged(run.path, run.name)
    for run in found.refused:
        say(f"{run.name} was not trained: {run.refused}")
    if found.refused:
        raise typer.Exit(FAILED)
    ends = [run.outcome.certificate for run in found.trained if run.outcome is not None]
    for best in ends:
        if best is not None and best.status == report["status"]:
            leave(best)


def run_sentences(asked: Mapping[str, Any], given: set[str]) -> None:
    """Train on the sentences of a file, both stages or one, and report."""
    from attsvm.cli.sentences import run_facts
    from attsvm.next_token.order import orders
    from attsvm.next_token.realizable import realizability
    from attsvm.next_token.sentences import embedding_of
    from attsvm.next_token.text import read_sentences
    from attsvm.next_token.training.outcome import sentence_outcome

    model = str(asked["model"])
    options = _read_options(asked["options"])
    file = FilePath(asked["file"])
    for kind in ("out", "figure"):  # even --force does not replace what is being read
        if asked[kind] is not None and FilePath(asked[kind]).resolve() == file.resolve():
            raise Unsupported(f"--{kind} names {file}, the file of the sentences: give another")
    begin = time.perf_counter()
    with working(f"reading {file.name}"):
        data = read_sentences(
            file,
            collocations=asked["collocations"],
            vocabulary=asked["vocabulary"],
            **{name: asked[name] for name in ("limit", "prose", "lower", "strip", "shortest")},
        )
        E = embedding_of(
            data.vocabulary, asked["embedding"], dimension=asked["dimension"], seed=asked["seed"]
        )
        every = orders(data)
        found = realizability(data, every)
    if model != "decoder":
        _check_sentences(data, found, ties=asked["ties"])
    run = _train_sentences(asked, given, data, E, options)
    with working("solving"):
        end = sentence_outcome(run, norm=asked["norm"], every=every)
    problems = end.certificates
    report = end.to_dict()
    report["seconds"] = time.perf_counter() - begin
    report["figure"] = None if asked["figure"] is None else str(asked["figure"])
    if asked["out"] is not None:
        run.save(asked["out"], force=asked["force"])
    report["unseen"] = None
    if asked["unseen"] is not None:
        if problems["W_kq"].status == "infeasible":
            raise Unsupported("--unseen compares with the solution, and there is none here")
        report["unseen"] = end.ask_unseen(asked["unseen"], seed=int(asked["seed"])).to_dict()
    if asked["figure"] is not None:
        from attsvm.plotting.style import write_figure

        with np.errstate(over="ignore", invalid="ignore"):
            write_figure(end.plot(style=asked["style"]), asked["figure"])
    title = f"{model}, {run.last.config['optimizer']} on {file.name}"
    shown = {**run_facts(report), **limit_facts(report["limit"]), "seconds": report["seconds"]}
    emit(report, asked["as_json"], facts(title, shown))
    for name, path in (("first", run.decoder), ("last", run.attention)):
        if path is not None:
            say_diverged(path, f"the {name} stage")
    if code := CODES[report["status"]]:
        bad = next(best for best in problems.values() if best.status == report["status"])
        say(bad.message)
        raise typer.Exit(code)


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


def _train_sentences(
    asked: Mapping[str, Any], given: set[str], data: Any, E: Floats, options: dict[str, Any]
) -> Any:
    """The run that was asked for."""
    from attsvm.next_token.training.outcome import SentenceRun
    from attsvm.next_token.training.train import RATES, STEPS, train, two_stages

    model = asked["model"]
    stage = 0 if model == "decoder" else 1
    lr = asked["lr"] if "lr" in given else RATES[stage] / float(np.sqrt(data.vocabulary))
    default = sum(STEPS) if model == "joint-next-token" else STEPS[stage]
    steps = asked["steps"] if "steps" in given else default
    plain: dict[str, Any] = {
        "embedding": E,
        "options": options,
        **{n: asked[n] for n in ("optimizer", "seed", "init", "schedule", "decay", "readout")},
    }
    with bar("training") as progress:
        plain["progress"] = progress
        if model == "next-token" and asked["readout"] != "mass":
            number = STEPS[0] if asked["decoder_steps"] is None else asked["decoder_steps"]
            plain |= {"lr": (asked["decoder_lr"], lr), "weights": (asked["weights"],) * 2}
            both = two_stages(data, steps=(number, steps), **plain)
            return SentenceRun.of(both, data)
        plain |= {"weights": asked["weights"], "collocations": asked["add_collocations"]}
        path = train(data, model=model, lr=lr, steps=steps, **plain)
    return SentenceRun.of(path, data, embedding=E)


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


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    """The report of one run for a reader."""
    names = ("selection", "state", "top_attention", "last_change", "steps", "loss",
             "log10_gradient_norm", "correlation", "margin_share", "seconds")  # fmt: skip
    shown = {name.replace("_", " "): report[name] for name in names} | limit_facts(report["limit"])
    if report["limit"]["model"] == "factored":
        shown["rank of W"] = report["rank"]
    if best := report["certificate"]:
        shown["certificate"] = best["message"]
    if proof := report["proof"]:
        shown["convergence"] = f"this run: {proof['message']}"
        shown["proved since step"] = report["proved_since"]
    return shown


def _worst(found: Comparison) -> str:
    """The worst status of the runs' own certificates."""
    ends = [run.outcome.certificate for run in found.trained if run.outcome is not None]
    states = {best.status for best in ends if best is not None}
    return next((status for status in ("infeasible", "stalled") if status in states), "optimal")


def _until(
    archive: Archive,
    parts: dict[str, Any],
    head: Any,
    asked: Mapping[str, Any],
    config: dict[str, Any],
) -> Any:
    """What ends the run early: a proof that it converges, or a certified locally optimal selection
    with this margin share; None where nothing is asked."""
    until = asked["until"]
    if until is None:
        return None
    if until == "proved":
        if head is None or (isinstance(head, Head) and head.vector is None):
            raise Unsupported("--until proved needs a fixed linear prediction head")
        form = model_of(parts["model"])
        return until_proved(archive.tokens, head, {**config, "loss": parts["loss"]}, model=form)
    try:
        share = float(until)
    except ValueError as error:
        raise Unsupported(f"--until is {until!r}: it is a margin share, or proved") from error
    limit = predict(parts["model"], parts["optimizer"])
    norm = limit.norm if asked["norm"] is None else asked["norm"]
    if norm is None or head is None:
        said = f"{limit.model}, {limit.optimizer}"
        raise Unsupported(f"--until needs a fixed prediction head and a predicted norm: not {said}")
    if isinstance(head, Head):
        raise Unsupported(
            f"--until needs a linear prediction head: the limit under {head.name} is not known"
        )
    if not 0 < share < 1:
        raise Unsupported(f"--until is {share:g}: a share lies between 0 and 1")
    custom = parts["model"] if isinstance(parts["model"], Model) else None
    return until_margin_share(archive.tokens, head, norm=norm, share=share, model=custom)


def _read_tokens(asked: Mapping[str, Any]) -> Archive:
    """The problem file of a run, with the queries that --queries or --sequence make."""
    path, queries, sequence = asked["file"], asked["queries"], asked["sequence"]
    _refuse_text(path)
    if queries is not None and queries not in ("first", "last"):
        raise Unsupported(f"--queries is {queries!r}: it is first or last")
    if sequence and queries is not None:
        raise Unsupported("--queries and --sequence are two ways to make queries: give one")
    made = ("z", "keys", "mask") if sequence else ("z",) if queries is not None else ()
    flag = "--sequence" if sequence else "--queries"

    def build(arrays: dict[str, Any]) -> Tokens:
        for name in made:
            if name in arrays:
                raise BadTokens(
                    f"{path} holds an array {name}, which {flag} makes: drop one of them"
                )
        if "y" not in arrays:
            raise BadTokens(f"{path} has no array y: training needs labels, -1 or +1")
        labels = arrays["y"]
        if sequence:
            if labels.ndim == 2 and labels.shape == arrays["X"].shape[:2]:
                labels = labels.ravel()
            causal = asked["causal"] is not False
            return Tokens.sequence(arrays["X"], causal=causal, labels=labels)
        return tokens_of(arrays if queries is None else arrays | {"z": queries})

    return read_problem(path, build=build)


def _refuse_text(path: FilePath) -> None:
    """Raises BadTokens when a file is a text, with the model that takes one."""
    if not path.is_file() or zipfile.is_zipfile(path):
        return
    with path.open("rb") as stream:
        start = stream.read(4096)
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        return
    if text.strip() and all(c.isprintable() or c.isspace() for c in text):
        raise BadTokens(
            f"{path} is not an .npz file but a text: train on its sentences with --model "
            "next-token, and on prose with --prose --ties besides"
        )


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


def _read_head(
    archive: Archive, name: str | None, *, model: str | Model, seed: int
) -> Head | Floats | None:
    """The prediction head of the run: a vector v (d,) for the linear one, None where the model
    trains it.

    name: linear, relu, quadratic, or FILE.py:NAME of a Head; without it the file decides: V makes
    a relu head, penalty a quadratic one, v alone a linear one. A named head whose v or V is not in
    the file is drawn by the seed, Gaussian of norm 1, V (d, d).
    """
    if model_of(model).trains_head:
        with_head(model_of(model), name or "linear")
        return None
    draw = name is not None
    if name is not None and is_outside(name):
        custom: Head = read_part(name, "head")
        return custom
    if name is None:
        here = archive.arrays
        name = "relu" if "V" in here else "quadratic" if "penalty" in here else "linear"
    if name not in HEADS:
        raise Unsupported(f"unknown prediction head {name!r}: known are {', '.join(HEADS)}")
    rng = np.random.default_rng([seed, 0, 1])  # apart from the starting point's [seed, instance]
    parts = [
        _head_array(archive, array, axes, name=name, rng=rng if draw else None)
        for array, axes in ARRAYS[name].items()
    ]
    return parts[0][0] if name == "linear" else HEADS[name](*parts)


def _head_array(
    archive: Archive, array: str, axes: int, *, name: str, rng: np.random.Generator | None
) -> Any:
    """One array of a head with the stack axis in front, or one number; drawn if it is absent."""
    d = archive.tokens.d
    if array not in archive.arrays:
        if axes == 0:
            raise BadTokens(
                f"the file has no array {array}: the {name} prediction head needs that number"
            )
        if rng is None:
            raise BadTokens(
                f"the file has no array {array}: the model needs a prediction head; add it, or "
                f"draw one by --head {name}"
            )
        values = rng.standard_normal((d,) * axes)
        return (values / np.linalg.norm(values))[None]
    values = floats(archive.arrays[array], array).astype(np.float64)
    shape = {0: "()", 1: f"({d},)", 2: f"({d}, width)"}[axes]
    if values.ndim != axes or (axes and (values.shape[0] != d or 0 in values.shape)):
        raise BadTokens(
            f"{array} has shape {values.shape}; it must be {shape} for the {name} prediction head"
        )
    if axes == 0 and values < 0:
        raise BadTokens(f"{array} is {float(values):g}: it must not be negative")
    return values[None] if axes else float(values)


def _read_options(texts: Sequence[str] | None) -> dict[str, float | bool]:
    """The options of an optimizer from NAME=VALUE, a value a number, true or false."""
    out: dict[str, float | bool] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise Unsupported(f"--option is {text!r}: write NAME=VALUE, such as momentum=0.9")
        if name in out:
            raise Unsupported(f"--option {name} is given twice")
        try:
            out[name] = value == "true" if value in ("true", "false") else float(value)
        except ValueError as error:
            raise Unsupported(
                f"--option {text}: {value!r} is no number, and neither true nor false"
            ) from error
    return out


def _read_init(archive: Archive, model: str | Model) -> dict[str, Any]:
    """The starting point in the file, by block."""
    form = model_of(model)
    names = form.shapes(1, 1, 1, 1)
    missing = [f"{name}0" for name in names if f"{name}0" not in archive.arrays]
    if missing:
        raise BadTokens(f"the file has no array {missing[0]} to start {form.name} from")
    return {name: archive.arrays[f"{name}0"] for name in names}


def _read_start(file: FilePath, given: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """(the saved path to go on from, its model, optimizer and loss by name of the part).

    Raises BadTokens or Unsupported when it is none, or was run in another way. given: what the
    command line says of the run, by its name in the path's config.
    """
    path = Path.load(file)
    config = path.config
    parts = choose_parts({name: given.get(name, "") for name in PARTS}, path)
    try:
        whole = set(path.weights) == set(_form(parts["model"], config).shapes(1, 1, 1, 1))
        optimizer = OptimizerConfig.again(config, parts["optimizer"], "constant").optimizer
        loss_of(parts["loss"])
        fresh = optimizer.init(path.at(-1)) if whole else {}
        kept = {name: np.shape(array) for name, array in path.state.items()}
        whole = whole and kept == {name: np.shape(array) for name, array in fresh.items()}
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, BadTokens):
            raise
        raise BadTokens(f"{file} is not a whole saved path ({error})") from error
    if not whole:
        raise BadTokens(f"{file} is not a whole saved path: its arrays do not fit each other")
    if path.size != 1:
        raise BadTokens(f"{file} holds {path.size} runs: go on with them by attsvm.train(start=…)")
    if path.diverged >= 0:
        raise BadTokens(
            f"the run in {file} diverged at step {path.diverged}: start again with a smaller --lr"
        )
    for name, value in given.items():
        if value != config.get(name) and (name not in PARTS or isinstance(value, str)):
            flag = "--option" if name == "options" else f"--{name}"
            raise Unsupported(
                f"{flag} differs from the run in {file}, which had {config.get(name)}: leave it "
                "out to go on as before"
            )
    return path, parts


def _form(model: str | Model, config: dict[str, Any]) -> Model:
    """The model of a saved run, with the head it trains."""
    form = model_of(model)
    return with_head(form, config.get("head") or "linear") if form.trains_head else form


def _check_start(
    path: Path, parts: dict[str, Any], tokens: Tokens, head: Any, *, file: FilePath
) -> None:
    """Raises BadTokens unless the run's end, evaluated again, is what the path recorded."""
    batch = Batch.of(tokens)
    model, config = _form(parts["model"], path.config), path.config
    last = path.at(-1)
    shapes = shapes_of(model, batch, config.get("width"))
    sizes = {name: block.shape[1:] for name, block in last.items()}
    same = sizes == shapes and (path.top.shape[2], path.places) == (tokens.n, tokens.T)
    if same:
        read = None if head is None else head_of(head, tokens.d)
        found = evaluate(model, last, batch, read, loss_of(parts["loss"]))
        same = np.allclose(found.loss, path.loss[-1], rtol=_SAME, atol=0) and np.array_equal(
            found.top, path.top[-1]
        )
    if not same:
        raise BadTokens(
            f"{file} is a run on other tokens, labels or prediction head: give the problem file it "
            "came from"
        )

"""train, on sentences: both stages or one, and both problems beside them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import typer
from rich.console import Console

from attsvm._utils.arrays import Floats
from attsvm._utils.progress import bar, working
from attsvm.cli.parts.inputs import read_options
from attsvm.cli.parts.options import print_json
from attsvm.cli.parts.sentence_options import check_options
from attsvm.cli.parts.sentence_report import run_table
from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.order import orders
from attsvm.next_token.realizable import Realizability, realizability
from attsvm.next_token.sentences import Sentences, embedding_of
from attsvm.next_token.text import read_sentences
from attsvm.next_token.training.outcome import SentenceRun, sentence_outcome
from attsvm.next_token.training.train import train, two_stages

# Step sizes times √N and steps, by stage: those of the published experiment.
_RATES, _STEPS = (0.2, 0.05), (2000, 4000)
# The faults in the order of what a reader should hear first.
_FIRST = ("no-collocations", "contradiction", "cycle")


def run_sentences(asked: Mapping[str, Any], given: set[str]) -> None:
    """Train on the sentences of a file and report; asked: every option by name, given: those on
    the command line."""
    model = str(asked["model"])
    check_options(asked, given)
    options = read_options(asked["options"] or [])
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
        _check_data(data, found, ties=asked["ties"])
    run = _trained(asked, given, data, E, options)
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
        from attsvm.plotting.stages import draw_stages

        with np.errstate(over="ignore", invalid="ignore"):
            draw_stages(end, asked["figure"], look=asked["style"])
    if asked["as_json"]:
        print_json(report)
    else:
        title = f"{model}, {run.last.config['optimizer']} on {file.name}"
        Console(markup=False).print(run_table(report, title))
    for name, path in (("first", run.decoder), ("last", run.attention)):
        if path is not None and path.diverged >= 0:
            print(
                f"attsvm: the {name} stage diverged at step {path.diverged} with lr "
                f"{path.config['lr']:g}, and its path ends there; try a smaller step size",
                file=sys.stderr,
            )
    code = {"optimal": 0, "infeasible": 3, "stalled": 4}[report["status"]]
    if code:
        bad = next(best for best in problems.values() if best.status == report["status"])
        print(f"attsvm: {bad.message}", file=sys.stderr)
        raise typer.Exit(code)


def _check_data(data: Sentences, found: Realizability, *, ties: bool) -> None:
    """Raises BadTokens when there is no sentence, or the data are not realizable and no ties are
    asked for."""
    if not data.size:
        raise BadTokens("there is no sentence of three or more tokens to train attention on")
    if found.realizable or (ties and not found.counts["no-collocations"]):
        return
    place = {kind: k for k, kind in enumerate(_FIRST)}
    worst = min(found.reasons, key=lambda fault: place.get(fault.kind, len(place)))
    more = sum(found.counts.values()) - 1
    said = worst.message if "--ties" in worst.message else f"{worst.message}; accept it with --ties"
    if worst.kind == "no-collocations":
        said = worst.message
    rest = f" (and {more} more: attsvm sentences lists them)" if more else ""
    raise BadTokens(f"not realizable: {said}{rest}")


def _trained(
    asked: Mapping[str, Any], given: set[str], data: Sentences, E: Floats, options: dict[str, Any]
) -> SentenceRun:
    """The run that was asked for."""
    model, root = asked["model"], float(np.sqrt(data.vocabulary))
    stage = 0 if model == "decoder" else 1
    lr = asked["lr"] if "lr" in given else _RATES[stage] / root
    default = sum(_STEPS) if model == "joint-next-token" else _STEPS[stage]
    steps = asked["steps"] if "steps" in given else default
    plain: dict[str, Any] = {
        "optimizer": asked["optimizer"],
        "embedding": E,
        "options": options,
        "seed": asked["seed"],
        "init": asked["init"],
        "schedule": asked["schedule"],
        "decay": asked["decay"],
        "readout": asked["readout"],
    }
    with bar("training") as progress:
        if model == "next-token" and asked["readout"] != "mass":
            first = asked["decoder_lr"] or _RATES[0] / root
            many = _STEPS[0] if asked["decoder_steps"] is None else asked["decoder_steps"]
            both = two_stages(
                data,
                lr=(first, lr),
                steps=(many, steps),
                weights=(asked["weights"],) * 2,
                progress=progress,
                **plain,
            )
            return SentenceRun.of(both, data)
        path = train(
            data,
            model=model,
            lr=lr,
            steps=steps,
            weights=asked["weights"],
            progress=progress,
            collocations=asked["add_collocations"],
            **plain,
        )
    return SentenceRun.of(path, data, embedding=E)

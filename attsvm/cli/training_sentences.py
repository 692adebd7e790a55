"""train, on sentences: both stages or one, and both problems beside them."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from attsvm import summary
from attsvm.archive import load_arrays, write_arrays
from attsvm.cli.inputs import read_options
from attsvm.cli.options import print_json
from attsvm.embedding import embedding_of, orthonormal
from attsvm.errors import BadTokens, Unsupported
from attsvm.language.finite_part import finite_part
from attsvm.language.floor import excess, floors
from attsvm.language.orders import Order, orders
from attsvm.language.problems import (
    Columns,
    attention_problem,
    decoder_problem,
    solve_attention,
    solve_decoder,
)
from attsvm.language.reading import read_sentences
from attsvm.language.realizability import Realizability, realizability
from attsvm.limits import predict
from attsvm.measures import bregman
from attsvm.models.contexts import Contexts
from attsvm.path import Path
from attsvm.progress import bar, working
from attsvm.rules.scaled import length
from attsvm.sentences import Sentences
from attsvm.solvers.front import solve
from attsvm.stages import two_stages
from attsvm.tokens import Floats
from attsvm.training import train

# Options that only sentences have, and those that they do not have.
SENTENCES_ONLY = {
    "collocations", "vocabulary", "decoder_lr", "decoder_steps", "readout", "weights", "embedding",
    "dimension", "ties", "add_collocations",
}  # fmt: skip
_TOKENS_ONLY = {"head", "loss", "width", "queries", "sequence", "causal", "until", "resume"}
# Which options the models of sentences do not share.
_OF_STAGES = {"decoder_lr", "decoder_steps", "readout"}
# Step sizes times √N and steps, by stage: those of the published experiment.
_RATES, _STEPS = (0.2, 0.05), (2000, 4000)
# The faults in the order of what a reader should hear first.
_FIRST = ("no-collocations", "contradiction", "cycle")
# Sentences times vocabulary up to which L − L⋆ is taken exactly at every record of a picture.
_EXACT = 1 << 22


@dataclass(frozen=True, eq=False)
class _Run:
    """What was trained, and on what; `attention` is None for the decoder alone, and `decoder` for
    the readout mass. The two are one path for joint-next-token."""

    data: Sentences
    E: Floats
    model: str
    decoder: Path | None
    attention: Path | None
    uniform: bool
    mass: bool

    @property
    def contexts(self) -> Contexts:
        """The arrays of the sentences, with the weights of the run."""
        share = np.full(self.data.size, 1 / max(self.data.size, 1)) if self.uniform else None
        return Contexts.of(self.data, self.E, weights=share)


def train_sentences(asked: Mapping[str, Any], given: set[str]) -> None:
    """Train on the sentences of a file and report; asked: every option by name, given: those on
    the command line."""
    model = str(asked["model"])
    _check_options(asked, given)
    options = read_options(asked["options"] or [])
    file = FilePath(asked["file"])
    begin = time.perf_counter()
    with working(f"reading {file.name}"):
        data = read_sentences(
            file, collocations=asked["collocations"], vocabulary=asked["vocabulary"]
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
        problems = _solved(run, every, str(asked["rule"]))
    report = {
        **_report(run, problems, every, found), "seconds": time.perf_counter() - begin,
        "figure": None if asked["figure"] is None else str(asked["figure"]),
    }  # fmt: skip
    if asked["out"] is not None:
        _save(run, asked["out"], force=asked["force"])
    if asked["figure"] is not None:
        _draw(run, problems, report["floor"], asked["figure"])
    if asked["as_json"]:
        print_json(report)
    else:
        title = f"{model}, {asked['rule']} on {file.name}"
        Console(markup=False).print(_table(report, title))
    for name, path in (("first", run.decoder), ("last", run.attention)):
        if path is not None and path.diverged >= 0:
            print(
                f"attsvm: the {name} stage diverged at step {path.diverged} with lr "
                f"{path.config['lr']:g}, and its path ends there; try a smaller step size",
                file=sys.stderr,
            )
    code = {"optimal": 0, "inseparable": 3, "stalled": 4}[report["status"]]
    if code:
        bad = next(best for best in problems.values() if best.status == report["status"])
        print(f"attsvm: {bad.message}", file=sys.stderr)
        raise typer.Exit(code)


def _check_options(asked: Mapping[str, Any], given: set[str]) -> None:
    """Nothing; an error when an option does not fit the model."""
    model = asked["model"]
    unfit = set(_TOKENS_ONLY)
    if model != "next-token":
        unfit |= _OF_STAGES
    if model != "joint-next-token":
        unfit.add("add_collocations")
    if asked["readout"] == "mass":
        unfit |= {"decoder_lr", "decoder_steps"}
    for name in sorted(unfit & given):
        with_mass = " with --readout mass" if name in _OF_STAGES and model == "next-token" else ""
        raise Unsupported(f"--{name.replace('_', '-')} does not fit --model {model}{with_mass}")
    if asked["init"] == "file":
        raise Unsupported("--init file needs a problem file: sentences start from zero or normal")
    rate = asked["decoder_lr"]
    if rate is not None and not 0 < rate < np.inf:
        raise Unsupported(f"--decoder-lr is {rate:g}: a step size is positive and finite")


def _check_data(data: Sentences, found: Realizability, *, ties: bool) -> None:
    """Nothing; an error when there is no sentence, or the data are not realizable and no ties are
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
) -> _Run:
    """The run that was asked for."""
    model, root = asked["model"], float(np.sqrt(data.vocabulary))
    stage = 0 if model == "decoder" else 1
    lr = asked["lr"] if "lr" in given else _RATES[stage] / root
    default = sum(_STEPS) if model == "joint-next-token" else _STEPS[stage]
    steps = asked["steps"] if "steps" in given else default
    mass, uniform = asked["readout"] == "mass", asked["weights"] == "uniform"
    plain: dict[str, Any] = {
        "rule": asked["rule"], "embedding": E, "options": options, "seed": asked["seed"],
        "init": asked["init"], "schedule": asked["schedule"], "decay": asked["decay"],
    }  # fmt: skip
    with bar("training") as progress:
        if model == "next-token" and not mass:
            first = asked["decoder_lr"] or _RATES[0] / root
            many = _STEPS[0] if asked["decoder_steps"] is None else asked["decoder_steps"]
            both = two_stages(
                data, lr=(first, lr), steps=(many, steps), weights=(asked["weights"],) * 2,
                progress=progress, readout=asked["readout"], **plain,
            )  # fmt: skip
            return _Run(data, E, model, both.decoder, both.attention, uniform, False)
        path = train(
            data, model=model, lr=lr, steps=steps, weights=asked["weights"], progress=progress,
            readout=asked["readout"], collocations=asked["add_collocations"], **plain,
        )  # fmt: skip
    return _Run(
        data, E, model, None if mass else path, None if model == "decoder" else path, uniform, mass
    )


def _solved(run: _Run, every: Mapping[int, Order], rule: str) -> dict[str, Columns]:
    """The problem of each trained matrix in the norm predicted for the rule, by its name."""
    norm = predict("next-token", rule).norm or "frobenius"
    plain, out = norm == "frobenius", {}
    if run.attention is not None:
        out["W_kq"] = (
            solve_attention(every, run.E)
            if plain
            else Columns.whole(solve(attention_problem(every, run.E), norm))
        )
    if run.decoder is not None:
        out["W_ov"] = (
            solve_decoder(run.data, run.E)
            if plain
            else Columns.whole(solve(decoder_problem(run.data, run.E), norm))
        )
    return out

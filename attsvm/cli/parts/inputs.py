"""What a training run is given: tokens, head, the optimizer's options, the run it goes on from.

Everything is checked here, before the first step, so that a refusal leaves nothing behind.
"""

from __future__ import annotations

import codecs
import zipfile
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, floats
from attsvm._utils.plugins import is_outside, load_object
from attsvm.cli.parts.archive import Archive, read_problem
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.training.config import OptimizerConfig, choose_parts
from attsvm.training.heads import HEADS, Head, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.joint import with_head
from attsvm.training.models.model import Model, evaluate
from attsvm.training.optimizers import Optimizer
from attsvm.training.path import Path
from attsvm.training.task import shapes_of

# The arrays of each head in a file, and how many axes they have.
ARRAYS: dict[str, dict[str, int]] = {
    "linear": {"v": 1},
    "relu": {"V": 2},
    "quadratic": {"v": 1, "penalty": 0},
}
# What may be an object of one's own, by family.
KINDS: dict[str, type] = {"optimizer": Optimizer, "model": Model, "loss": Loss, "head": Head}
FAMILIES = ("model", "optimizer", "loss")
# What a saved run keeps: given again when it goes on, it must be as it was.
KEPT = ("model", "optimizer", "options", "loss", "lr", "seed", "init", "width", "schedule", "decay")
# A run evaluated again at its end gives the recorded loss but for rounding.
_SAME = 1e-9


def refuse_text(path: FilePath) -> None:
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


def read_run(
    path: FilePath, *, queries: str | None = None, sequence: bool = False, causal: bool = True
) -> Archive:
    """The file of a training run, checked.

    queries: "first" or "last", that token of each input is its query. sequence: X is (S, L, d) and
    every position is an input, with the label y[s, i]; causal: it sees the tokens up to its own.
    """
    if queries is not None and queries not in ("first", "last"):
        raise Unsupported(f"--queries is {queries!r}: it is first or last")
    if sequence and queries is not None:
        raise Unsupported("--queries and --sequence are two ways to make queries: give one")
    made = ("z", "keys", "mask") if sequence else ("z",) if queries is not None else ()
    option = "--sequence" if sequence else "--queries"

    def build(arrays: dict[str, Any]) -> Tokens:
        for name in made:
            if name in arrays:
                raise BadTokens(
                    f"{path} holds an array {name}, which {option} makes: drop one of them"
                )
        if "y" not in arrays:
            raise BadTokens(f"{path} has no array y: training needs labels, -1 or +1")
        return _tokens(arrays, queries, sequence=sequence, causal=causal)

    return read_problem(path, build=build)


def _tokens(arrays: dict[str, Any], queries: str | None, *, sequence: bool, causal: bool) -> Tokens:
    if not sequence:
        given = arrays.get("z") if queries is None else queries
        return Tokens(
            arrays["X"],
            queries=given,
            labels=arrays["y"],
            keys=arrays.get("keys"),
            mask=arrays.get("mask"),
        )
    labels = arrays["y"]
    if labels.ndim == 2 and labels.shape == arrays["X"].shape[:2]:
        labels = labels.ravel()
    return Tokens.sequence(arrays["X"], causal=causal, labels=labels)


def own_part(text: str, family: str) -> Any:
    """What an option names: the text itself, or the object that FILE.py:NAME holds.

    family: optimizer, model, loss or head. Of an optimizer the function that makes it will do.
    """
    if not is_outside(text):
        return text
    found, kind = load_object(text, f"a {family}"), KINDS[family]
    if isinstance(found, kind) or (family == "optimizer" and callable(found)):
        return found
    raise Unsupported(f"{text} is no {kind.__name__}: it is {found!r}")


def read_head(
    archive: Archive, name: str | None, *, model: str | Model, seed: int
) -> Head | Floats | None:
    """The head of the run: a vector v (d,) for the linear one, None where the model trains it.

    name: linear, relu, quadratic, or FILE.py:NAME of a Head; without it the file decides: V makes
    a relu head, penalty a quadratic one, v alone a linear one. A named head whose v or V is not in
    the file is drawn by the seed, Gaussian of norm 1, V (d, d).
    """
    if model_of(model).trains_head:
        with_head(model_of(model), name or "linear")
        return None
    drawn = name is not None
    if name is not None and is_outside(name):
        own: Head = own_part(name, "head")
        return own
    if name is None:
        here = archive.arrays
        name = "relu" if "V" in here else "quadratic" if "penalty" in here else "linear"
    if name not in HEADS:
        raise Unsupported(f"unknown head {name!r}: known are {', '.join(HEADS)}")
    rng = np.random.default_rng([seed, 0, 1])  # apart from the starting point's [seed, instance]
    parts = [
        _part(archive, array, axes, name=name, rng=rng if drawn else None)
        for array, axes in ARRAYS[name].items()
    ]
    if name == "linear":
        return parts[0][0]
    return HEADS[name](*parts)


def _part(
    archive: Archive, array: str, axes: int, *, name: str, rng: np.random.Generator | None
) -> Any:
    """One array of a head with the stack axis in front, or one number; drawn if it is absent."""
    d = archive.tokens.d
    if array not in archive.arrays:
        if axes == 0:
            raise BadTokens(f"the file has no array {array}: the {name} head needs that number")
        if rng is None:
            raise BadTokens(
                f"the file has no array {array}: the model needs a head; add it, or draw one by "
                f"--head {name}"
            )
        values = rng.standard_normal((d,) * axes)
        return (values / np.linalg.norm(values))[None]
    values = floats(archive.arrays[array], array).astype(np.float64)
    shape = {0: "()", 1: f"({d},)", 2: f"({d}, width)"}[axes]
    if values.ndim != axes or (axes and (values.shape[0] != d or 0 in values.shape)):
        raise BadTokens(f"{array} has shape {values.shape}; it must be {shape} for the {name} head")
    if axes == 0 and values < 0:
        raise BadTokens(f"{array} is {float(values):g}: it must not be negative")
    return values[None] if axes else float(values)


def read_options(words: Sequence[str]) -> dict[str, float | bool]:
    """The options of an optimizer from NAME=VALUE, a value a number, true or false."""
    out: dict[str, float | bool] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals and text):
            raise Unsupported(f"--option is {word!r}: write NAME=VALUE, such as momentum=0.9")
        if name in out:
            raise Unsupported(f"--option {name} is given twice")
        if text in ("true", "false"):
            out[name] = text == "true"
            continue
        try:
            out[name] = float(text)
        except ValueError as error:
            raise Unsupported(
                f"--option {word}: {text!r} is no number, and neither true nor false"
            ) from error
    return out


def read_start(file: FilePath, given: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """(the saved path to go on from, its model, optimizer and loss by family).

    Raises BadTokens or Unsupported when it is none, or was run in another way. given: what the
    command line says of the run, by its name in the path's config.
    """
    path = Path.load(file)
    config = path.config
    parts = choose_parts({name: given.get(name, "") for name in FAMILIES}, path)
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
        if value != config.get(name) and (name not in FAMILIES or isinstance(value, str)):
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


def check_start(
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
            f"{file} is a run on other tokens, labels or head: give the problem file it came from"
        )

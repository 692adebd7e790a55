"""Malformed calls of everything public.

Walks `__all__` of the public packages, takes a call of each function, constructor and method that
works, and replaces one argument by a value that does not belong there. An error of the library is
right, and so is a result; any other exception, and more than ten seconds, is a fault.

Not called: methods of the types that a user may subclass (Norm, Solver, Optimizer, Model, Head,
Loss), which the library calls itself, and those that torch's own classes define the arguments of.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import attsvm
from attsvm.errors import AttsvmError
from attsvm.next_token import embedding_of, orders
from tests.contracts.results import MADE, path, planar, sentences, stages, tied

LIMIT = 10.0  # seconds
LETTERS = 1000  # of a message
PACKAGES = ["attsvm", "attsvm.next_token"]
PACKAGES += ["attsvm.estimator"] if find_spec("sklearn") else []
PACKAGES += ["attsvm.torch"] if find_spec("torch") else []
OWN = {"Norm", "Solver", "Optimizer", "Model", "Head", "Loss"}
# Methods whose arguments are torch's own.
TORCH = {"forward", "step", "add_param_group", "load_state_dict", "tokens", "attention", "look"}


def bad_values() -> dict[str, Any]:
    """Name -> a value that belongs nowhere, or only in another place."""
    tokens, _ = planar()
    values: dict[str, Any] = {
        "None": None, "text": "no-such-thing", "long text": "x" * 100_000, "null byte": "a\0b",
        "bytes": b"abc", "true": True, "zero": 0, "three": 3, "minus": -1, "huge": 10**5000,
        "float": 0.5, "nan": float("nan"), "inf": float("inf"), "tiny": 5e-324, "large": 1.7e308,
        "complex": 1 + 2j, "fraction": Fraction(1, 3), "empty list": [], "list": [1, 2, 3],
        "texts": ["a", "b"], "Nones": [None, None], "ragged": [[1, 2], [3]],
        "big entries": [10**400, 1], "dict": {"a": 1}, "odd dict": {1: 2}, "set": {1, 2},
        "object": object(), "class": dict, "our class": attsvm.Tokens, "ellipsis": ...,
        "function": lambda *a, **k: None, "module": np, "empty array": np.empty(0),
        "0-d object": np.array(None), "vector": np.arange(5.0), "matrix": np.ones((4, 7)),
        "cube": np.ones((2, 3, 4)), "five axes": np.ones((1,) * 5), "nan array": np.full(3, np.nan),
        "complexes": np.ones(3, complex), "objects": np.array([None, "a", 2], object),
        "text array": np.array(["a", "b"]), "dates": np.array(["2020-01-01"], "datetime64[D]"),
        "records": np.zeros(3, [("a", float), ("b", int)]), "bools": np.ones(3, bool),
        "masked": np.ma.masked_array([1.0, 2.0], [True, False]), "ints": np.array([0, 0, 0]),
        "broadcast": np.broadcast_to(1.0, (10**6, 10**6)), "path": Path("no-such-file"),
        "Tokens": tokens, "Problem": attsvm.Problem.of(tokens, [0, 0, 0]), "Path": path(),
        "Certificate": MADE["Certificate"][0](), "Sentences": sentences(),
        "Norm": attsvm.norm_of("l1"), "Outcome": MADE["Outcome"][0](),
    }  # fmt: skip
    return values | {"generator": (k for k in range(3))}


@cache
def bases() -> dict[str, Any]:
    """Parameter name -> a value that works wherever it is not said otherwise."""
    tokens, v = planar()
    problem = attsvm.Problem.of(tokens, [[0, 1], [0], [0]])
    run = attsvm.train(tokens, model="prompt", head=v, steps=20)
    certificate = attsvm.solve(attsvm.Problem.of(tokens, [0, 0, 0]))
    return {
        "tokens": tokens, "v": v, "head": v, "keep": [0, 0, 0], "selection": [0, 0, 0],
        "sets": [[0, 1], [0], [0]], "winners": [0, 0, 0], "indices": [0, 0, 0],
        "problem": problem, "problems": [problem, problem], "norm": "frobenius",
        "W": certificate.W, "run": run, "path": run, "X": tokens.X, "index": [0],
        "attention": np.full(tokens.present().shape, 0.5), "differences": np.eye(3),
        "k": 0, "l": 0, "multipliers": np.ones(problem.m), "target": certificate,
        "probabilities": np.full(tokens.present().shape, 0.5), "s": [0.5, 0.5], "p": 3.0,
        "log_t": np.log([10.0]), "optimizers": ["ngd"], "model": "prompt", "optimizer": "gd",
        "sentences": sentences(), "vocabulary": 3, "E": embedding_of(3),
        "orders": orders(sentences()), "found": certificate, "angle": 0.1, "record": 0, "count": 2,
        "sentence": 0, "token": 0, "a": 0, "b": 1, "steps": 5, "file": "run.npz", "path_": "c.npz",
        "folder": "folder", "lines": [["a", "b"], ["b", "a"]], "data": sentences(),
        "arrays": run.arrays(), "alpha": np.zeros((2, 3), int), "function": lambda *a, **k: None,
    }  # fmt: skip


@cache
def special() -> dict[str, dict[str, Any]]:
    """Call -> the arguments that differ from `bases`, or that are named although optional."""
    tokens, v = planar()
    squares = np.random.default_rng(0).standard_normal((4, 3, 2))
    saved = {"path": "saved.npz"}
    W = 9 * bases()["W"]
    found = {
        "attsvm.Stack": {"X": np.random.default_rng(0).standard_normal((2, 3, 4, 2))},
        "attsvm.Certificate.load": saved, "attsvm.Path.load": {"file": "saved-run.npz"},
        "attsvm.ConvergenceProof.load": {"path": "saved-proof.json"},
        "attsvm.next_token.SentenceProof.bound_at": {"W": np.eye(3)},
        "attsvm.next_token.SentenceProof.load": {"path": "saved-sentence-proof.json"},
        "attsvm.Certificate.save": {"path": "c.npz", "force": True},
        "attsvm.ConvergenceProof.save": {"path": "p.json", "force": True},
        "attsvm.next_token.SentenceProof.save": {"path": "p.json", "force": True},
        "attsvm.Path.save": {"file": "r.npz", "force": True},
        "attsvm.Comparison.save": {"folder": "compared", "force": True},
        "attsvm.train": {"steps": 5, "model": "prompt", "head": v},
        "attsvm.outcome": {"model": None, "optimizer": None},
        "attsvm.compare": {"steps": 5, "models": ["prompt"], "head": v},
        "attsvm.proof_of_convergence": {"W": W, "head": v},
        "attsvm.regpath": {
            "radii": [1.0, 10.0], "starts": 1, "scouts": 2, "head": v, "model": "prompt",
        },
        "attsvm.Selection.attended": {"path": tokens, "W": W},
        "attsvm.Selection": {"kept": np.eye(3, dtype=bool)},
        "attsvm.ConvergenceProof.bound": {"steps": 3},
        "attsvm.Problem.finite": {"keep": [[0, 1], [0], [0]]},
        "attsvm.read_sentences": {"file": "saved.txt"},
        "attsvm.next_token.read_sentences": {"file": "saved.txt"},
        "attsvm.next_token.sentence_outcome": {"run": MADE["SentenceRun"][0]()},
        "attsvm.next_token.SentenceRun.save": {"path": "s.npz", "force": True},
        "attsvm.next_token.SentenceRun.of": {"path": stages(), "head": None},
        "attsvm.next_token.train": {"model": "decoder", "head": None, "steps": 5},
        "attsvm.two_stages": {"steps": (5, 5)}, "attsvm.next_token.two_stages": {"steps": (5, 5)},
        "attsvm.next_token.finite_part": {"sentences": tied(), "orders": orders(tied())},
        "attsvm.Path.plot": {"found": None},
        "attsvm.Problem": vars(attsvm.Problem.from_rows(np.eye(2), ties=np.eye(2))) | {},
        "attsvm.estimator.MaxMarginAttention.fit": {"X": squares, "y": [0, 1, 0, 1]},
        "attsvm.estimator.MaxMarginAttention": {"max_iter": 20},
        "attsvm.predict": {}, "attsvm.Path.at": {"record": 0},
        "attsvm.next_token.Columns.whole": {},
    }  # fmt: skip
    for name in ("decision_function", "predict", "attention", "predict_proba"):
        found[f"attsvm.estimator.MaxMarginAttention.{name}"] = {"X": squares}
    return found | (_of_torch() if find_spec("torch") else {})


def _of_torch() -> dict[str, dict[str, Any]]:
    """The calls of `attsvm.torch`."""
    import torch

    from attsvm.torch import Attention
    from tests.torch.small import made, small_config, texts

    model, config = made(), small_config(epochs=1)
    attention = Attention([0.0, 1.0], shape=(2,))
    several, x = torch.nn.MultiheadAttention(2, 2, batch_first=True), torch.ones(1, 3, 2)
    batch = {"model": several, "batch": (x, x, x)}
    params = {"params": list(model.parameters())}
    found = {
        "Attention": {"head": [0.0, 1.0], "shape": (2,)},
        "MirrorDescent": params | {"p": 3.0}, "NormalizedGD": params, "SteepestDescent": params,
        "Monitor": {"model": attention}, "capture": batch, "groups": {"model": model},
        "load_data": {"config": config, "file": "saved.csv"},
        "fit": {"config": config, "data": texts()},
        "config_of": {"task": "text"},
        "as_optimizer": {"kind": torch.optim.SGD, "lr": 0.1},
        "Captured.outcome": {},
    }  # fmt: skip
    return {f"attsvm.torch.{name}": given for name, given in found.items()}


# Arguments that are handed to a user's own code as they are.
PASSED = {"attsvm.torch.capture": ("batch",)}
# Names that a call takes beside those of its signature.
EXTRA = {
    "attsvm.compare": ("loss", "init", "seed", "schedule", "decay", "width", "options"),
    "attsvm.two_stages": ("init", "seed", "schedule", "decay", "options"),
    "attsvm.next_token.two_stages": ("init", "seed", "schedule", "decay", "options"),
}


@cache
def instances() -> dict[str, Any]:
    """Class name -> an object of it, for its methods."""
    tokens, _ = planar()
    X = np.random.default_rng(0).standard_normal((4, 3, 2))
    found = {name: makers[0]() for name, makers in MADE.items()}
    found |= {
        "Tokens": tokens, "Problem": bases()["problem"],
        "Stack": attsvm.Stack(X[None], alpha=[[0] * 4]), "Sentences": sentences(),
        "Order": next(iter(orders(sentences()).values())),
    }  # fmt: skip
    if find_spec("sklearn"):
        from attsvm.estimator import MaxMarginAttention

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["MaxMarginAttention"] = MaxMarginAttention(max_iter=20).fit(X, [0, 1, 0, 1])
    if find_spec("torch"):
        import torch

        from attsvm.torch import Attention, Monitor, capture, fit
        from tests.torch.small import small_config, texts

        model, x = Attention([0.0, 1.0], shape=(2,)), torch.tensor(X)
        many = torch.nn.MultiheadAttention(2, 1, batch_first=True).double()
        found |= {"Captured": capture(many, (x, x, x)), "Monitor": Monitor(model)}
        found["Monitor"].close()
        found["FitResult"] = fit(small_config(epochs=1), texts())
    return found


@dataclass(frozen=True)
class Call:
    """A call that works: the function, its arguments, and the names that may be replaced."""

    name: str
    function: Callable[..., Any]
    given: dict[str, Any]
    names: tuple[str, ...]


def _public(module: ModuleType) -> list[str]:
    """The names of a public module: what it lists, or what it defines."""
    listed: list[str] | None = vars(module).get("__all__")
    if listed is not None:
        return listed
    own = module.__name__
    return [n for n, x in vars(module).items()
            if n[0] != "_" and getattr(x, "__module__", "") == own and callable(x)]  # fmt: skip


def _and_fit(kind: Any) -> Callable[..., Any]:
    """The estimator made of these parameters and fitted."""

    @wraps(kind)
    def made(**options: Any) -> Any:
        return kind(**options).fit(np.random.default_rng(0).random((4, 3, 2)), [0, 1, 0, 1])

    return made


def _members(name: str, kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The constructor and the methods of a public class."""
    short = kind.__name__
    if hasattr(kind, "fit"):  # an estimator holds what it is given until it is fitted
        yield name, _and_fit(kind)
    elif not inspect.isabstract(kind) and not getattr(kind, "_is_protocol", False):
        yield name, kind
    if short in OWN:
        return
    for key in dir(kind):
        member = inspect.getattr_static(kind, key)
        if key[0] == "_" or key in TORCH:
            continue
        bound = isinstance(member, classmethod | staticmethod)
        if not bound and not inspect.isfunction(member):
            continue
        holder: Any = kind if bound else instances().get(short)
        function = getattr(holder, key, None)
        if function is not None and getattr(function, "__module__", "").startswith("attsvm"):
            yield f"{name}.{key}", function


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, constructor and method, by its name."""
    for package in PACKAGES:
        module = import_module(package)
        for name in _public(module):
            thing = getattr(module, name)
            if isinstance(thing, ModuleType):
                if thing.__name__ not in PACKAGES:
                    for inner in _public(thing):
                        if inspect.isfunction(getattr(thing, inner)):
                            yield f"{package}.{name}.{inner}", getattr(thing, inner)
            elif inspect.isclass(thing):
                if not issubclass(thing, BaseException):
                    yield from _members(f"{package}.{name}", thing)
            elif callable(thing):
                yield f"{package}.{name}", thing


@cache
def calls() -> tuple[Call, ...]:
    """A call of each that works, where it takes an argument."""
    out = []
    for name, function in functions():
        found = inspect.signature(function).parameters.values()
        plain = [p for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        differ = special().get(name, {})
        given = {}
        for p in plain:
            if p.name in differ:
                given[p.name] = differ[p.name]
            elif p.default is p.empty:
                given[p.name] = bases().get(p.name)
        names = (*(p.name for p in plain), *EXTRA.get(name, ()))
        names = tuple(n for n in names if n not in PASSED.get(name, ()))
        if names:
            out.append(Call(name, function, given, names))
    return tuple(out)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A folder of its own with the saved files, no output and no warnings."""
    here = os.getcwd()
    made = instances()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        os.chdir(folder)
        try:
            made["Certificate"].save("saved.npz")
            made["Path"].save("saved-run.npz")
            made["ConvergenceProof"].save("saved-proof.json")
            made["SentenceProof"].save("saved-sentence-proof.json")
            Path("saved.txt").write_text("a b c\nb c a\n", encoding="utf-8")
            silent = io.StringIO()
            with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
                yield
        finally:
            os.chdir(here)
            logging.disable(logging.NOTSET)


class _Late(BaseException):
    """A call took too long."""


def _late(*_: Any) -> None:
    raise _Late


def tried(call: Call, changes: dict[str, Any], *, right: bool = False) -> str:
    """What is wrong with a call with these changes, "" if nothing.

    right: every argument is right, so that an error of the library is wrong too.
    """
    before = signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    wrong = ""
    try:
        found = call.function(**{**call.given, **changes})
        if call.name.endswith(".Monitor"):
            found.close()  # its hooks are on every module
    except AttsvmError as error:
        if right:
            wrong = f"refused: {error}"
        elif len(str(error)) > LETTERS:
            wrong = f"a message of {len(str(error))} characters"
    except _Late:
        wrong = "too long"
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    return wrong


def drawn(count: int, seed: int) -> list[tuple[Call, str, str]]:
    """So many malformed calls: a call, the argument that is replaced, the name of the value."""
    values = list(bad_values())
    every = [(call, name, value) for call in calls() for name in call.names for value in values]
    return random.Random(seed).sample(every, min(count, len(every)))

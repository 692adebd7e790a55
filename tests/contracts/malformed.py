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
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from attsvm.errors import AttsvmError
from tests.contracts.malformed_values import EXTRA, PASSED, bad_values, bases, instances, special

LIMIT = 10.0  # seconds
LETTERS = 1000  # of a message
PACKAGES = ["attsvm", "attsvm.next_token"]
PACKAGES += ["attsvm.estimator"] if find_spec("sklearn") else []
PACKAGES += ["attsvm.torch"] if find_spec("torch") else []
OWN = {"Norm", "Solver", "Optimizer", "Model", "Head", "Loss"}
# Methods whose arguments are torch's own.
TORCH = {"forward", "step", "add_param_group", "load_state_dict", "tokens", "attention", "look"}


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
            Path("saved.toml").write_text('task = "text"\n', encoding="utf-8")
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

"""Small calls that between them compile every kernel, for `attsvm warm`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import Manager, get_context
from queue import Empty
from typing import Any

import numpy as np

from attsvm._utils.compiled import KERNELS
from attsvm._utils.progress import bar
from attsvm._utils.waiting import silence
from attsvm.errors import AttsvmError
from attsvm.next_token.embedding import embedding_of
from attsvm.next_token.order import orders
from attsvm.next_token.problems import solve_attention
from attsvm.next_token.sentences import Sentences
from attsvm.next_token.training import train as sentence_training
from attsvm.next_token.training.stages import two_stages
from attsvm.problem.problem import Problem, Stack
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima
from attsvm.theory.regularization_path.paths import regpath
from attsvm.training.models import MODELS
from attsvm.training.optimizers import OPTIMIZERS
from attsvm.training.train import train_tokens

NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.75", "l3")


def steps() -> list[tuple[str, Callable[[], object]]]:
    """(name, call) of every step, the longest to compile first."""
    tokens, v = _instance(3, 4, 5)
    plain = Tokens(tokens.X, labels=tokens.labels)
    problem = Problem.of(tokens, Selection.best(tokens, v))
    big, w = _instance(64, 8, 16)
    large = Problem.of(big, Selection.best(big, w))
    X = np.asarray(tokens.X)
    stack = Stack(np.stack([X, X + 1.0]), alpha=np.zeros((2, 3), int))
    said = Sentences.of([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2, 3, 1], [2, 1, 3, 3]])
    found: list[tuple[str, Callable[[], object]]] = []
    # Kernels differ by optimizer and by model, but not by pairs of them.
    pairs = [(model, "ngd") for model in MODELS] + [
        ("weight", optimizer) for optimizer in OPTIMIZERS
    ]
    for model, optimizer in dict.fromkeys(pairs):
        data = plain if "prompt" in model else tokens
        head = None if "joint" in model else v
        name = optimizer.replace(":P", ":3")
        ask = partial(train_tokens, data, model=model, optimizer=name, head=head, steps=40, lr=0.01)
        found.append((f"train {model} {name}", ask))
    found += [(f"solve {norm}", partial(solve, problem, norm)) for norm in NORMS]
    found.append(("solve, many rows", partial(solve, large)))
    found.append(("solve, many rows in float32", partial(solve, _single(large))))
    found.append(("solve, soft margin", partial(solve, problem, C=1.0)))
    found.append(("solve_many", partial(solve_many, stack)))
    found.append(("local_optima", partial(local_optima, tokens, v)))
    found.append(("regpath", partial(regpath, tokens, head=v, radii=[1.0, 10.0])))
    found.append(("sentences, two stages", partial(_sentences, said)))
    for model in ("decoder", "joint-next-token"):
        found.append(
            (f"train {model}", partial(sentence_training.train, said, model=model, steps=40))
        )
    return found


def warm_up(jobs: int = 1) -> int:
    """How many kernels were compiled, by small calls shared out between so many processes.

    A bar on a terminal, a line for each call that compiled something elsewhere.
    """
    names = [name for name, _ in steps()]
    with bar("compiling kernels") as tell:

        def done(count: int, name: str, made: int) -> None:
            if tell is not None:
                tell(count / len(names))
            elif made:
                print(f"compiled for {name}", file=sys.stderr, flush=True)

        if jobs == 1:
            return sum(_tell(done, k, name, made) for k, (name, made) in enumerate(_run(names), 1))
        # A share holds neighbours, which have kernels in common.
        size = max(1, -(-len(names) // jobs))
        with (
            Manager() as manager,
            ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool,
        ):
            said = manager.Queue()
            shares = [
                pool.submit(_compile, names[k : k + size], said) for k in range(0, len(names), size)
            ]
            count = 0
            while not (said.empty() and all(share.done() for share in shares)):
                with suppress(Empty):
                    name, made = said.get(timeout=0.2)
                    count += 1
                    done(count, name, made)
            return sum(share.result() for share in shares)


def _tell(done: Callable[[int, str, int], None], count: int, name: str, made: int) -> int:
    done(count, name, made)
    return made


def _compile(names: list[str], said: Any) -> int:
    """The kernels compiled by the calls of these names; each is put in the queue when it ends."""
    silence()
    total = 0
    for name, made in _run(names):
        said.put((name, made))
        total += made
    return total


def _run(names: list[str]) -> Iterator[tuple[str, int]]:
    """(name, kernels compiled) of each call; one that does not apply is passed by."""
    before = compiled()
    for name, call in steps():
        if name not in names:
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with suppress(AttsvmError):  # not every optimizer fits every model
                call()
        after = compiled()
        yield name, after - before
        before = after


def compiled() -> int:
    """How many kernels this process has compiled, those loaded from the cache not counted."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in KERNELS)


def place() -> str:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR, beside the source, or the user's cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return chosen or str(KERNELS[0].stats.cache_path or "the memory of this process alone")


def _instance(n: int, T: int, d: int) -> tuple[Tokens, np.ndarray]:
    draw = np.random.default_rng(0)
    X, Z = draw.standard_normal((n, T, d)), draw.standard_normal((n, d))
    return Tokens(X, queries=Z, labels=np.ones(n)), draw.standard_normal(d)


def _single(problem: Problem) -> Problem:
    keys = np.asarray(problem.keys, np.float32)
    tokens = Tokens(keys.reshape(-1, problem.width, keys.shape[1]), queries=problem.queries)
    return Problem.of(tokens, Selection.of(tokens, [0] * tokens.n))


def _sentences(said: Sentences) -> object:
    stages = two_stages(said, steps=(40, 40))
    embedding = embedding_of(said.vocabulary, "orthonormal")
    return stages, solve_attention(orders(said), embedding)

"""warm: compile every kernel, by small calls that between them use all of them."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from attsvm._utils.progress import bar
from attsvm.cli.options import Json, app, option
from attsvm.cli.output import emit, many
from attsvm.errors import AttsvmError

if TYPE_CHECKING:
    from attsvm.problem.tokens import Tokens

NORMS = ("frobenius", "nuclear", "spectral", "max", "l1", "l1.75", "l3")


@app.command("warm", epilog="Example: attsvm warm --jobs 2")
def warm_command(
    jobs: Annotated[int, option("--jobs", "N", "Processes that compile.", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Compile every kernel now, so that no later call waits for it."""
    start = time.perf_counter()
    count = warm_up(jobs)
    seconds = time.perf_counter() - start
    where = place()
    if count:
        said = f"compiled {many(count, 'kernel')} in {seconds:.0f} s; they are kept in {where}"
    else:
        said = f"nothing to compile: all kernels are in {where}"
    emit({"status": "done", "compiled": count, "seconds": seconds, "place": where}, as_json, said)


def warm_up(jobs: int = 1) -> int:
    """How many kernels were compiled, by small calls shared out between so many processes.

    A bar on a terminal, a line for each call that compiled something elsewhere.
    """
    names = [name for name, _ in steps()]
    total = 0
    with bar("compiling kernels") as progress:
        for count, (name, made) in enumerate(_compiled(names, jobs), 1):
            total += made
            if progress is not None:
                progress(count / len(names))
            elif made:
                print(f"compiled for {name}", file=sys.stderr, flush=True)
    return total


def _compiled(names: list[str], jobs: int) -> Any:
    """(name, kernels compiled) of each call, in this process or in several."""
    if jobs == 1:
        yield from map(_compile, names)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # A share holds neighbours, which have kernels in common.
    size = -(-len(names) // (4 * jobs))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_compile, names, chunksize=size)


def _compile(name: str) -> tuple[str, int]:
    """The name of a call, and how many kernels it compiled; one that does not apply is skipped."""
    import numpy as np

    from attsvm._utils.compiled import silence

    silence()
    before = compiled()
    call = dict(steps())[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with suppress(AttsvmError):  # not every optimizer fits every model
            call()
    return name, compiled() - before


def compiled() -> int:
    """How many kernels this process has compiled, those loaded from the cache not counted."""
    from attsvm._utils.compiled import KERNELS

    return sum(sum(kernel.stats.cache_misses.values()) for kernel in KERNELS)


def place() -> str:
    """Where compiled kernels are kept: NUMBA_CACHE_DIR, beside the source, or the user's cache."""
    from attsvm._utils.compiled import KERNELS

    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return chosen or str(KERNELS[0].stats.cache_path or "the memory of this process alone")


def steps() -> list[tuple[str, Callable[[], object]]]:
    """(name, call) of every step, the longest to compile first."""
    import numpy as np

    from attsvm.next_token.sentences import Sentences
    from attsvm.next_token.training import train as sentence_training
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

    tokens, v = _instance(3, 4, 5)
    plain = Tokens(tokens.X, labels=tokens.labels)
    problem = Problem.of(tokens, Selection.best(tokens, v))
    big, w = _instance(64, 8, 16)
    large = Problem.of(big, Selection.best(big, w))
    keys = np.asarray(large.keys, np.float32)
    single = Tokens(keys.reshape(-1, large.width, keys.shape[1]), queries=large.queries)
    in_float32 = Problem.of(single, Selection.of(single, [0] * single.n))
    X = np.asarray(tokens.X)
    stack = Stack(np.stack([X, X + 1.0]), alpha=np.zeros((2, 3), int))
    data = Sentences.of([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2, 3, 1], [2, 1, 3, 3]])
    found: list[tuple[str, Callable[[], object]]] = []
    # Kernels differ by optimizer and by model, but not by pairs of them.
    pairs = [(model, "ngd") for model in MODELS]
    pairs += [("weight", optimizer) for optimizer in OPTIMIZERS]
    for model, optimizer in dict.fromkeys(pairs):
        instance = plain if "prompt" in model else tokens
        head = None if "joint" in model else v
        name = optimizer.replace(":P", ":3")
        ask = partial(
            train_tokens, instance, model=model, optimizer=name, head=head, steps=40, lr=0.01
        )
        found.append((f"train {model} {name}", ask))
    found += [(f"solve {norm}", partial(solve, problem, norm)) for norm in NORMS]
    found.append(("solve, many rows", partial(solve, large)))
    found.append(("solve, many rows in float32", partial(solve, in_float32)))
    found.append(("solve, soft margin", partial(solve, problem, C=1.0)))
    found.append(("solve_many", partial(solve_many, stack)))
    found.append(("local_optima", partial(local_optima, tokens, v)))
    found.append(("regpath", partial(regpath, tokens, head=v, radii=[1.0, 10.0])))
    found.append(("sentences, two stages", partial(_sentences, data)))
    for model in ("decoder", "joint-next-token"):
        ask = partial(sentence_training.train, data, model=model, steps=40)
        found.append((f"train {model}", ask))
    return found


def _instance(n: int, T: int, d: int) -> tuple[Tokens, Any]:
    import numpy as np

    from attsvm.problem.tokens import Tokens

    draw = np.random.default_rng(0)
    X, Z = draw.standard_normal((n, T, d)), draw.standard_normal((n, d))
    return Tokens(X, queries=Z, labels=np.ones(n)), draw.standard_normal(d)


def _sentences(data: Any) -> object:
    from attsvm.next_token.order import orders
    from attsvm.next_token.problems import solve_attention
    from attsvm.next_token.sentences import embedding_of
    from attsvm.next_token.training.train import two_stages

    stages = two_stages(data, steps=(40, 40))
    embedding = embedding_of(data.vocabulary, "orthonormal")
    return stages, solve_attention(orders(data), embedding)

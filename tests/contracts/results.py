"""One small and, where it can be, one unwieldy instance of every public result."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import attsvm
from attsvm.datasets import EXAMPLES
from attsvm.next_token import SentenceRun, finite_part, orders, realizability, solve_decoder
from attsvm.theory.convergence.proof import Blocked
from attsvm.theory.convergence.verify import Recheck

SCRIPT = "<script>alert('&')</script>"
LONG = "word " * 400 + "\n\t\x1b[31m" + "x" * 400


@cache
def small() -> tuple[attsvm.Tokens, Any]:
    """Tokens with queries, and their head."""
    a = EXAMPLES["sphere"]()
    return attsvm.Tokens(a["X"], queries=a["z"], labels=a["y"]), a["v"]


@cache
def large() -> tuple[attsvm.Tokens, Any]:
    """Many inputs in a few dimensions, of which most selections are infeasible."""
    rng = np.random.default_rng(3)
    X, v = rng.standard_normal((120, 9, 6)), rng.standard_normal(6)
    z = rng.standard_normal((120, 6))
    return attsvm.Tokens(X, queries=z, labels=np.sign(rng.standard_normal(120))), v


@cache
def path(steps: int = 400) -> attsvm.Path:
    tokens, v = small()
    return attsvm.train(tokens, head=v, steps=steps)


@cache
def long_path() -> attsvm.Path:
    tokens, v = large()
    return attsvm.train(tokens, head=v, steps=50)


@cache
def ended() -> attsvm.Outcome:
    tokens, v = small()
    return attsvm.outcome(path(), tokens, v)


@cache
def heads() -> attsvm.Outcome:
    tokens, v = small()
    path = attsvm.train(tokens, model="multi-head", heads=3, head=v, steps=50)
    return attsvm.outcome(path, tokens, v)


@cache
def inputs() -> attsvm.Outcome:
    tokens, v = large()
    path = attsvm.train(tokens, model="qk-norm", head=v, steps=20)
    return attsvm.outcome(path, tokens, v)


@cache
def busy() -> attsvm.Outcome:
    tokens, v = large()
    return attsvm.outcome(long_path(), tokens, v)


def infeasible() -> attsvm.Certificate:
    tokens, v = large()
    return attsvm.solve(attsvm.Problem.of(tokens, attsvm.Selection.best(tokens, v)))


@cache
def planar() -> tuple[attsvm.Tokens, Any]:
    a = EXAMPLES["multi-input-planar"]()
    return attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"]), a["v"]


@cache
def proved() -> attsvm.ConvergenceProof:
    """A proof with a rate."""
    tokens, v = planar()
    run = attsvm.train(tokens, model="prompt", head=v, steps=2000)
    return attsvm.proof_of_convergence(tokens, run.weights["p"][-1, 0], head=v, lr=0.1)


@cache
def sentences() -> attsvm.Sentences:
    words = [SCRIPT, "b" * 300, "c"]
    lines = [[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]]
    return attsvm.Sentences.of([[words[t] for t in line] for line in lines])


@cache
def tied() -> attsvm.Sentences:
    """Sentences with several labels for one context: not realizable, with a finite part."""
    lines = [[0, 3, 0], [1, 3, 1], [0, 1, 3, 0], [0, 1, 3, 1]]
    return attsvm.Sentences.of(lines, collocations="copy")


@cache
def stages() -> SentenceRun:
    return attsvm.two_stages(sentences(), steps=(200, 300))


@cache
def sentence_end() -> Any:
    return attsvm.outcome(stages(), sentences())


@cache
def comparison() -> attsvm.Comparison:
    tokens, v = planar()
    return attsvm.compare(
        tokens, optimizers=["ngd", "polyak", "nmirror:1.5"], models=["prompt", "factored"], head=v,
        steps=60,
    )  # fmt: skip


def best(norm: str = "frobenius") -> attsvm.Certificate:
    tokens, v = small()
    keep = attsvm.Selection.best(tokens, v)
    return attsvm.solve(attsvm.Problem.of(tokens, keep), norm)


def choice() -> attsvm.SetChoice:
    tokens, _ = planar()
    return attsvm.solve_sets(tokens, [[0, 1], [0], [0]])


def limit() -> attsvm.Limit:
    tokens, v = small()
    return attsvm.predict("weight", "gd", tokens, head=v)


def long_limit() -> attsvm.Limit:
    found = limit()
    return attsvm.Limit(LONG, SCRIPT, None, "unknown", LONG, ("key",) * 90, found.premises * 30)


def basin() -> attsvm.Basin:
    tokens, v = planar()
    return attsvm.basin(tokens, [0, 0, 0], head=v)


def regpath() -> attsvm.RegPath:
    tokens, v = planar()
    return attsvm.regpath(tokens, model="prompt", head=v, radii=np.geomspace(1, 1e3, 4))


def optima() -> attsvm.Optima:
    tokens, v = planar()
    return attsvm.local_optima(tokens, v)


def crowded() -> attsvm.Optimality:
    """A verdict with more witnesses than fit a screen."""
    found = ended().optimality
    many = tuple(attsvm.Witness(i, i % 7, -float(i)) for i in range(500))
    return attsvm.Optimality("neither", False, False, -1.0, many, many, found.certificate)


def blocked() -> attsvm.ConvergenceProof:
    tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    return attsvm.proof_of_convergence(tokens, [0.0, 0.3], head=[0.2, 0.7], lr=0.1)


# Class name -> functions that make one.
MADE: dict[str, tuple[Callable[[], Any], ...]] = {
    "Answer": (lambda: attsvm.Answer(np.ones((90, 90)), np.ones(9000), np.ones(0)),),
    "Basin": (basin,),
    "Blocked": (lambda: Blocked(LONG + SCRIPT, (3, 4)),),
    "Certificate": (best, lambda: best("nuclear"), infeasible),
    "Check": (lambda: best().verify(), lambda: attsvm.Check(False, LONG, 1.0, 2.0, "exact")),
    "Columns": (lambda: solve_decoder(sentences(), attsvm.embedding_of(3)),),
    "ComparedRun": (lambda: comparison().runs[0], lambda: comparison().runs[-1]),
    "Comparison": (comparison,),
    "ConvergenceProof": (proved, blocked),
    "FinitePart": (lambda: finite_part(tied(), orders(tied())),),
    "LayerOutcome": (heads, inputs),
    "Limit": (limit, long_limit),
    "Optima": (optima,),
    "Optimality": (lambda: ended().optimality, crowded, lambda: busy().optimality),
    "Outcome": (ended, lambda: replace(ended(), certificate=None, optimality=None), busy),
    "Path": (path, long_path),
    "Realizability": (lambda: realizability(sentences()), lambda: realizability(tied())),
    "Recheck": (lambda: proved().verify(), lambda: Recheck(False, LONG)),
    "RegPath": (regpath,),
    "Selection": (lambda: attsvm.Selection.best(*large()),),
    "SentenceOutcome": (sentence_end,),
    "SentenceProof": (lambda: sentence_end().proof,),
    "SentenceRun": (stages,),
    "SetChoice": (choice,),
    "Tight": (lambda: best().tight,),
    "Witness": (lambda: attsvm.Witness(3, 4, 0.5),),
}

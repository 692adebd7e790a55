"""Conjecture: along normalized descent from zero the correlation with W^mm never falls."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from itertools import pairwise

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.parts.descent import cosine, loss_and_pull
from attsvm.experiments.statements.parts.digits import DIGITS, Matrix, inner, look_at
from attsvm.experiments.statements.parts.facts import all_tight, best_tokens, equal_others, facts_of
from attsvm.experiments.statements.parts.rationals import exact_solution
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement

# The step, a power of two, and how many are followed.
_STEP, _COUNT = 0.125, 60
# Two runs, of 60 and of 90 digits, must agree to this.
_AGREE = Decimal("1e-40")


def premises(one: Instance) -> bool:
    """B.1 or B.2, the best tokens can be kept, and the first gradient is not zero."""
    best = best_tokens(one)
    if best is None or facts_of(one, best) is None:
        return False
    return equal_others(one) or all_tight(one)


def correlations(one: Instance) -> list[float]:
    """corr(W(k), W^mm) of normalized descent from W = 0, k = 1, 2, …"""
    best = best_tokens(one)
    facts = None if best is None else facts_of(one, best)
    out: list[float] = []
    if facts is None:
        return out
    W: Floats = np.zeros(facts.W.shape)
    for _ in range(_COUNT):
        _, pull = loss_and_pull(one.tokens, one["v"], W)
        size = float(np.linalg.norm(pull))
        if size == 0:
            break
        W = W + _STEP * pull / size
        out.append(cosine(W, facts.W))
    return out


def violation(one: Instance) -> float:
    """The largest fall in one step."""
    found = correlations(one)
    falls = [a - b for a, b in pairwise(found)]
    return max(falls, default=-1.0)


def _walk(one: Instance, D: Matrix, steps: int, digits: int) -> list[Decimal]:
    """The correlations of the first steps in so many digits."""
    with localcontext(Context(prec=digits)):
        W = [[Decimal(0)] * len(D[0]) for _ in D]
        size = inner(D, D).sqrt()
        out = []
        for _ in range(steps):
            pull = look_at(one, W, digits).pull
            length = inner(pull, pull).sqrt()
            W = [
                [a + Decimal(_STEP) * b / length for a, b in zip(*rows, strict=True)]
                for rows in zip(W, pull, strict=True)
            ]
            out.append(inner(W, D) / (inner(W, W).sqrt() * size))
        return out


def confirm(one: Instance) -> Confirmation:
    """The fall in 60 and in 90 digits, W^mm in rationals."""
    found = correlations(one)
    falls = [a - b for a, b in pairwise(found)]
    best = best_tokens(one)
    exact = None if best is None else exact_solution(one, best)
    if exact is None or not falls or max(falls) <= 0:
        return Confirmation(False, "sixty digits", "the correlation does not fall")
    if not equal_others(one) and not exact.tight.all():
        return Confirmation(False, "rationals", "neither B.1 nor B.2 holds exactly")
    last = int(np.argmax(falls)) + 2
    runs = []
    for digits in (DIGITS, DIGITS + 30):
        with localcontext(Context(prec=digits)):
            D = [
                [Decimal(x.numerator) / Decimal(x.denominator) for x in row]
                for row in exact.matrix.fractions().tolist()
            ]
        runs.append(_walk(one, D, last, digits))
    apart = max(abs(a - b) for a, b in zip(*runs, strict=True))
    fall = runs[1][-2] - runs[1][-1]
    return Confirmation(
        apart < _AGREE < fall,
        "sixty digits",
        f"step {last} of normalized descent from 0 with η = {_STEP} lowers the correlation from "
        f"{float(runs[1][-2]):.9f} to {float(runs[1][-1]):.9f}; runs of 60 and 90 digits agree to "
        f"{float(apart):.0e}",
        {"before": f"{runs[1][-2]:.30g}", "after": f"{runs[1][-1]:.30g}"},
    )


STATEMENT = Statement(
    "monotone-correlation",
    title="The correlation with W^mm never falls",
    says="Under B.1 or B.2, along normalized descent from W = 0 with steps of 1/8 the correlation "
    "with W^mm of the best tokens never falls.",
    kind="conjecture",
    space=Space(
        {"n": (1, 2), "T": (2, 3), "d": (1, 2)},
        (Field("X", ("n", "T", "d")), Field("v", ("d",))),
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    lines=(
        "tokens = attsvm.Tokens(X, labels=np.ones(len(X)))",
        "path = attsvm.train(tokens, model='prompt', head=v, optimizer='ngd', lr=0.125, steps=60)",
        "best = attsvm.solve(attsvm.Problem.of(tokens, attsvm.Selection.best(tokens, v)))",
        "print(attsvm.measures.correlation(path, best)[1:])",
    ),
    proves="the run in 60 and in 90 digits against the rational solution",
    block=100,
)

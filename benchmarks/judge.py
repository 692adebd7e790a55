"""The judge: `certify` on what a contestant handed back, from the arrays alone. Not a contestant.

    gap = upper/lower − 1,   lower from the contestant's own multipliers

A contestant that gives no multipliers is graded with a lower bound from our own certified solve:
lower ≤ least norm ≤ upper still holds, so the gap is a true one.

A trained W selects the tokens that it scores highest, and is graded by its correlation with the
certified least-norm solution of that selection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attsvm.certificate import certify
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from benchmarks.task import Answer, Task


@dataclass(frozen=True)
class Grade:
    """The largest certified gap of a task's answers, and whose lower bounds it rests on.

    gap is inf when an answer is missing or infeasible; bound is 'own', 'ours' or 'both'.
    correlation: of trained answers, the median ⟨W, W*⟩/‖W‖‖W*‖.
    """

    gap: float
    bound: str
    answers: int
    correlation: float | None = None


def grade(task: Task, answers: list[Answer]) -> Grade:
    """The grade of the answers to a task, each judged on a problem built anew from the arrays."""
    if task.v is None and len(answers) != task.stack:
        return Grade(np.inf, "own", len(answers))
    if task.training is not None:
        found = [_correlation(task, answer, k) for k, answer in enumerate(answers)]
        return Grade(np.inf, "ours", len(answers), float(np.median(found)))
    gaps: list[float] = []
    bounds: set[str] = set()
    for k, answer in enumerate(answers):
        gap, bound = _grade_one(task, answer, 0 if task.v is not None else k)
        gaps.append(gap)
        bounds.add(bound)
    whose = "both" if len(bounds) > 1 else next(iter(bounds), "own")
    return Grade(max(gaps, default=np.inf), whose, len(answers))


def _correlation(task: Task, answer: Answer, k: int) -> float:
    """The correlation of a trained W with the solution of its own selection; 0 without either."""
    if answer.W is None or not np.isfinite(answer.W).all():
        return 0.0
    tokens = Tokens(task.X[k], queries=None if task.z is None else task.z[k])
    scores = np.einsum("ntd,dq,nq->nt", tokens.X, answer.W, tokens.queries, optimize=True)
    problem = Problem.of(tokens, Selection.of(tokens, scores.argmax(axis=1)))
    best = solve(problem, task.norm, tol=task.tol)
    if best.W is None:
        return 0.0
    return float(np.vdot(answer.W, best.W) / (np.linalg.norm(answer.W) * np.linalg.norm(best.W)))


def _grade_one(task: Task, answer: Answer, k: int) -> tuple[float, str]:
    tokens = Tokens(task.X[k], queries=None if task.z is None else task.z[k])
    alpha = task.alpha[k] if answer.alpha is None else answer.alpha
    problem = Problem.of(tokens, Selection.of(tokens, alpha))
    if answer.multipliers is not None:
        return certify(problem, task.norm, answer.W, answer.multipliers).gap, "own"
    reference = solve(problem, task.norm, tol=task.tol)
    return certify(problem, task.norm, answer.W, reference.multipliers).gap, "ours"

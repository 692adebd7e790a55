"""Ours: from arrays to Certificate or Path, the checks of the arrays included."""

from __future__ import annotations

from attsvm.api import train
from attsvm.certificate import Certificate
from attsvm.problem.problem import Problem, Stack
from attsvm.problem.selection import Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.solvers.solve_many import solve_many
from attsvm.theory.optima import local_optima
from benchmarks.task import Answer, Task, Training


def answer(task: Task) -> list[Answer]:
    """The answers of `solve`, `solve_many` (a stack), `local_optima` (a head) or `train`."""
    if task.training is not None:
        return _trained(task, task.training)
    if task.v is not None:
        tokens = Tokens(task.X[0])
        found = local_optima(tokens, task.v, task.norm)
        return [
            Answer(o.certificate.W, o.certificate.multipliers, Selection.of(tokens, alpha).indices)
            for alpha, o in found.local
        ]
    if task.stack > 1:
        stack = Stack(task.X, queries=task.z, alpha=task.alpha)
        return [_answer(c) for c in solve_many(stack, task.norm, tol=task.tol)]
    tokens = Tokens(task.X[0], queries=None if task.z is None else task.z[0])
    problem = Problem.of(tokens, Selection.of(tokens, task.alpha[0]))
    return [_answer(solve(problem, task.norm, tol=task.tol))]


def _trained(task: Task, run: Training) -> list[Answer]:
    tokens = [
        Tokens(task.X[k], queries=None if task.z is None else task.z[k], labels=run.y[k])
        for k in range(task.stack)
    ]
    path = train(tokens, head=run.v, lr=run.lr, steps=run.steps, init={"W": run.start})
    return [Answer(W, None) for W in path.weights["W"][-1]]


def _answer(certificate: Certificate) -> Answer:
    return Answer(certificate.W, certificate.multipliers)

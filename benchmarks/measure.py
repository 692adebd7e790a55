"""The clock: one contestant on one work, seed by seed, in CPU seconds of this process.

A contestant is timed from arrays to its answer and graded after the clock has stopped. Short
answers are given again until enough CPU time has passed, and the least counts: whatever else runs
on the machine only adds, by half in bad moments. The process is meant to be a fresh one with one
thread: then its peak memory is that of this contestant.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.judge import grade
from benchmarks.task import Answer, Contestant, Task, Work

# CPU seconds spent on repeating a short answer, and the most repeats.
ENOUGH = 1.0
MOST = 200
# A seed that no measurement uses.
_WARM_SEED = 1000


def measured(
    work: Work,
    contestant: Contestant,
    *,
    seeds: Iterable[int],
    first: int | None = None,
    quick: bool = False,
) -> Iterator[dict[str, Any]]:
    """One measurement a seed, each a JSON-able dict; CPU and wall seconds are per problem, or per
    instance and step of training.

    first: how many problems of a stack are used; quick: in the size of a quick run.
    """
    # Compiling, importing and first-call set-up stay outside of the clock. Where times are
    # compared everyone has answered a task of the full size before: the first large one takes
    # cvxpy twice as long as the next.
    contestant.answer(work.tiny_task(_WARM_SEED))
    if len(work.entries) > 1:
        contestant.answer(_part(work.task(_WARM_SEED, quick=quick), first))
    for seed in seeds:
        task = _part(work.task(seed, quick=quick), first)
        answers, cpu, wall = _clock(contestant, task)
        memory = peak_memory()
        verdict = grade(task, answers)
        yield {
            "seed": seed,
            "size": [int(k) for k in task.X.shape[1:]],
            "problems": task.stack,
            "norm": task.norm,
            "cpu_seconds": min(cpu) / task.parts,
            "cpu_seconds_median": median(cpu) / task.parts,
            "wall_seconds": min(wall) / task.parts,
            "repeats": len(cpu),
            "gap": verdict.gap if np.isfinite(verdict.gap) else None,
            "bound": verdict.bound,
            "answers": verdict.answers,
            "correlation": verdict.correlation,
            "steps": None if task.training is None else task.training.steps,
            "solver": ", ".join(sorted({a.solver for a in answers if a.solver})),
            "peak_mb": memory,
        }
        # The next task is drawn when this one is gone: peak memory is that of one.
        del task, answers


def _part(task: Task, first: int | None) -> Task:
    return task if first is None else task.first(first)


def _clock(contestant: Contestant, task: Task) -> tuple[list[Answer], list[float], list[float]]:
    """The answers to a task, with the CPU and wall seconds of each repeat."""
    cpu: list[float] = []
    wall: list[float] = []
    answers: list[Answer] = []
    # Once: a collection before each repeat would also empty the processor's caches.
    gc.collect()
    while not cpu or (sum(cpu) < ENOUGH and len(cpu) < MOST):
        answers = []  # the last ones are freed outside of the clock
        began, started = time.perf_counter(), time.process_time()
        answers = contestant.answer(task)
        cpu.append(time.process_time() - started)
        wall.append(time.perf_counter() - began)
    return answers, cpu, wall


def peak_memory() -> float | None:
    """The peak resident memory of this process in MB, None where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux: getrusage would also count the parent, whose memory a new process briefly shares.
        for line in status.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS

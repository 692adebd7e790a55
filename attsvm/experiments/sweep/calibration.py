"""What a sweep will take: a few instances at a few points, timed, and no more said than that."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import numpy as np

from attsvm.experiments.sweep.spec import Spec
from attsvm.experiments.sweep.task import MeasuredTask, SweepTask, measure_task

# Points that are tried, instances at each, and seconds after which no further one is begun.
_POINTS, _INSTANCES, _ENOUGH = 3, 8, 10.0


@dataclass(frozen=True)
class Estimate:
    """What was counted and what is expected: seconds of one core, and bytes on disk."""

    points: int
    instances: int
    tasks: int
    seconds: float
    disk: float
    tried: int


def estimate(spec: Spec) -> Estimate:
    """The size of a sweep; its time from a few instances at its first, middle and last point.

    Small stacks take longer per instance than whole groups: the time is rather too long.
    """
    points = list(spec.points())
    places = sorted({round(k * (len(points) - 1) / max(_POINTS - 1, 1)) for k in range(_POINTS)})
    count = min(_INSTANCES, spec.seeds, spec.group)
    seeds = tuple(range(spec.first, spec.first + count))
    each: list[float] = []
    size = 0
    for place in places:
        task = SweepTask(spec.work, points[place], seeds, "calibration")
        measure_task(replace(task, seeds=seeds[:1]))  # loads what is compiled
        found = measure_task(task)
        each.append(found.seconds / count)
        size = max(size, _bytes(found, count))
        if count * sum(each) > _ENOUGH:
            break
    tasks = len(points) * len(spec.blocks())
    disk = tasks * size + spec.instances * _row(found)
    return Estimate(
        points=len(points),
        instances=spec.instances,
        tasks=tasks,
        seconds=float(np.mean(each)) * spec.instances,
        disk=float(disk),
        tried=len(each) * count,
    )


def _stored(found: MeasuredTask) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **found.columns)
    return stream.getvalue()


def _row(found: MeasuredTask) -> float:
    """Bytes of one instance in a shard, its seed included."""
    return 8.0 + sum(float(np.asarray(column).itemsize) for column in found.columns.values())


def _bytes(found: MeasuredTask, count: int) -> int:
    """Bytes of a shard beside those of its instances."""
    return int(len(_stored(found)) + 300 - count * _row(found))

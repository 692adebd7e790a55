"""Record: what a run of training has seen so far, and the Path it makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm.errors import BadTokens
from attsvm.training.models.model import Evaluation
from attsvm.training.optimizers.optimizer import Blocks, Clock
from attsvm.training.path import PER_DECADE, Path, recorded

# The columns of a Path that have one row per record.
COLUMNS = ("steps", "loss", "log_gradient", "top", "top_attention", "clock")


def grid(first: int, last: int, per_decade: int = PER_DECADE) -> Ints:
    """The steps on the grid of records from `first` to `last`, both included.

    >>> grid(9, 14)
    array([ 9, 10, 11, 12, 13, 14])
    """
    found = [0, *range(1, 11)]
    decade = 1
    while 10**decade <= last:
        found.extend(_decade(decade, per_decade))
        decade += 1
    steps = np.array(found, np.int64)
    return steps[(steps >= first) & (steps <= last)]


@lru_cache(maxsize=32)
def _decade(place: int, per_decade: int) -> tuple[int, ...]:
    """The steps on the grid above 10^place, up to 10^(place + 1)."""

    def near() -> Iterator[int]:
        # A step on the grid is the first beyond some 10^(k/per_decade), up to rounding.
        for k in range(per_decade + 1):
            middle = int(10 ** (place + k / per_decade))
            yield from range(middle - 1, middle + 3)

    within = {s for s in near() if 10**place < s <= 10 ** (place + 1)}
    return tuple(sorted(s for s in within if recorded(s, per_decade)))


def _joined(parts: list[Any]) -> Any:
    """The parts one after the other; a long run is one part already."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Record:
    """What a run has seen so far: rows of a Path, and the state that each step updates.

    clock (B,), top (B, n) or None before the first step, changed (B, n): as in Path, at the
    present step.
    """

    def __init__(self, start: Path | None) -> None:
        """An empty record, or one that goes on from the end of a path."""
        self.before = start
        self.rows: list[dict[str, Any]] = []
        self.weights: list[Blocks] = []
        self.clock = -np.inf if start is None else start.clock[-1]
        self.top = None if start is None else start.top[-1]
        self.changed = None if start is None else start.changed.copy()

    @property
    def last(self) -> int:
        """The last step that was recorded, −1 without one."""
        return int(self.rows[-1]["steps"][-1]) if self.rows else -1

    def see(self, step: int, top: Any) -> None:
        """Note which top tokens changed."""
        if self.top is None or self.changed is None:
            self.changed = np.zeros(top.shape, np.int64)
        else:
            self.changed = np.where(top != self.top, step, self.changed)
        self.top = top

    def tick(self, clock: Clock | None, lr: Floats, size: Floats) -> None:
        """Advance the plain-flow clock as the optimizer's own says; unknown without one."""
        if clock is None:
            self.clock = np.full(len(lr), np.nan)
            return
        with np.errstate(divide="ignore"):  # η = 0 adds nothing
            self.clock = np.logaddexp(self.clock, clock(np.log(lr), size))

    def add(self, step: int, params: Blocks, found: Evaluation, size: Floats) -> None:
        """Keep one record."""
        top_attention = np.exp(np.take_along_axis(found.logs, found.top[:, :, None], 2))[:, :, 0]
        row = {
            "steps": np.int64(step),
            "loss": found.loss,
            "log_gradient": size,
            "top": found.top,
            "top_attention": top_attention,
            "clock": np.broadcast_to(self.clock, size.shape),
        }
        self.extend(
            {k: np.array(a)[None] for k, a in row.items()},
            {k: a[None].copy() for k, a in params.items()},
        )

    def extend(self, rows: dict[str, Any], weights: Blocks) -> None:
        """Keep several records: each of COLUMNS with a leading axis R, and the blocks likewise."""
        if len(rows["steps"]):
            self.rows.append(rows)
            self.weights.append(weights)

    def path(
        self, config: dict[str, Any], objects: dict[str, Any], state: dict[str, Any], diverged: int
    ) -> Path:
        """The Path of all records, those of the run it goes on from first."""
        rows, weights = list(self.rows), list(self.weights)
        if self.before is not None:
            before = self.before
            # The end of the earlier run stays only if it is on the grid, or nothing follows it.
            keep = np.array([not rows or recorded(int(s), before.records) for s in before.steps])
            rows.insert(0, {name: getattr(before, name)[keep] for name in COLUMNS})
            weights.insert(0, {name: block[keep] for name, block in before.weights.items()})
        if not rows or self.changed is None:
            raise BadTokens("the loss is not a finite number at the start: scale tokens or head")
        column = {name: _joined([row[name] for row in rows]) for name in COLUMNS}
        return Path(
            column["steps"],
            {name: _joined([part[name] for part in weights]) for name in weights[0]},
            column["loss"],
            column["log_gradient"],
            column["top"],
            column["top_attention"],
            column["clock"],
            self.changed,
            config,
            state,
            diverged,
            objects,
        )

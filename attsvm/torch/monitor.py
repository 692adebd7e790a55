"""Monitor: what every attention head of a model does while it is trained, head by head.

    monitor = attsvm.torch.Monitor(model, optimizer)
    for batch in data:
        loss(model(batch)).backward()
        optimizer.step()
        monitor.step()

Records are spaced evenly on a logarithmic scale; between two of them nothing is hooked and a step
costs nothing. Outputs, gradients and random numbers are those of a model that is not monitored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import expect, file_path, function, number, shown, whole
from attsvm._utils.files import beside
from attsvm.errors import Unsupported
from attsvm.torch.calls import Call
from attsvm.torch.ceilings import Ceiling, Radii, ceiling_of
from attsvm.torch.saturation import LATEST, Course, Saturation, SaturationWarning, courses_of
from attsvm.torch.statistics import PerQuery, norms, per_query
from attsvm.torch.watch import Reads, Watch, not_seen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Records in a tenfold of steps, and the steps from one to the next after the first two.
PER_DECADE, LEAST_WAY = 7, 2
NOT_SEEN = (
    "no attention of this model can be seen: it has no nn.MultiheadAttention and calls "
    "torch.nn.functional.scaled_dot_product_attention by no name that can be wrapped; hand over "
    "Monitor(model, reads=f), where f(model) yields (layer, q, k) after each forward, q and k of "
    "shape (B, H, L, dh)"
)
NOT_RUN = (
    "no forward of this model with gradients was seen before step(): give Monitor the module that "
    "is called, or call monitor.look(batch)"
)
COMPILED = (
    "a compiled model runs without hooks: where monitor.due, call monitor.look(batch) before "
    "monitor.step(); it runs the model once more as it was before it was compiled"
)


class Row(NamedTuple):
    """One head of one layer at one step, over the sampled queries of its batch.

    step: optimizer steps made before the forward. largest: the largest logit scale · q·k. entropy:
    mean, in nats. gap: median difference of the two largest logits. odds: median of log(p/(1 − p))
    of the largest attention p. saturated: share of queries with p at least the level. frobenius,
    spectral: norms of W = scale · W_Kᵀ[W_Q b_q]. ceiling: no |logit| of this batch is larger, by
    the steps made; limit: none will ever be, at the present step size and decay and for inputs
    such as these. queries: how many were looked at. nan: not known.

    >>> import torch
    >>> from attsvm.torch import Attention, NormalizedGD
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> monitor = Monitor(model, NormalizedGD(model.parameters(), lr=0.5))
    >>> out = model(torch.eye(2, dtype=torch.float64)[None])
    >>> monitor.step()
    >>> (row,) = monitor.rows
    >>> row.step, row.queries, round(row.entropy, 4)  # log 2: two tokens, nothing learned
    (0, 1, 0.6931)
    >>> monitor.close()
    """

    step: int
    layer: str
    head: int
    largest: float
    entropy: float
    gap: float
    odds: float
    saturated: float
    frobenius: float
    spectral: float
    ceiling: float
    limit: float
    queries: int


NUMBERS = Row._fields[3:]


class Monitor:
    """Follows the attention heads of a model in training; call `step()` after each optimizer step.

    model: any module that attends by nn.MultiheadAttention or scaled_dot_product_attention, in
    forwards with gradients; of others, reads: a function f(model) that yields (layer, q, k) or
    `Reading` after each forward. optimizer: what trains it; without it no ceiling is known.
    queries: at most so many of a call are looked at. every: the longest way between two records, in
    steps. level: the attention from which a query counts as saturated. writer: an object with
    add_scalar(name, value, step), such as TensorBoard's SummaryWriter, written to at each record.
    A compiled model has no hooks: call `look(batch)` where `due`.

    rows: what was recorded. warnings: the heads that were warned of (SaturationWarning, once each).

    >>> import torch
    >>> from attsvm.torch import Attention, NormalizedGD
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> optimizer = NormalizedGD(model.parameters(), lr=0.5)
    >>> monitor = Monitor(model, optimizer)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     model(torch.eye(2, dtype=torch.float64)[None]).sum().neg().backward()
    ...     optimizer.step()
    ...     monitor.step()
    >>> [(row.step, round(row.largest, 3), round(row.entropy, 3)) for row in monitor.rows]
    [(0, 0.0, 0.693), (1, 0.354, 0.634), (2, 0.707, 0.494)]
    >>> monitor.close()
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        *,
        reads: Reads | None = None,
        queries: int = 64,
        every: int = 200,
        level: float = 0.99,
        writer: Any = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise Unsupported(f"Monitor takes an nn.Module, this is {type(model).__name__}")
        queries, every = whole(queries, "queries", least=1), whole(every, "every", least=1)
        if optimizer is not None:
            expect(optimizer, Optimizer, "optimizer")
        reads = function(reads, "reads")
        if not 0.5 < number(level) < 1:
            raise Unsupported(f"level is {shown(level)}: it must lie between 0.5 and 1")
        self.rows: list[Row] = []
        self.warnings: list[Saturation] = []
        self.level, self.every, self.queries, self.writer = level, every, queries, writer
        self._radii = None if optimizer is None else Radii(optimizer)
        self._model = getattr(model, "_orig_mod", model)
        self._compiled = (
            self._model is not model or getattr(model, "_compiled_call_impl", None) is not None
        )
        self._reads = reads
        self._step = self._turn = 0
        self._next = 0
        self._found: dict[str, list[PerQuery]] = {}
        self._norms: dict[str, tuple[Tensor, Tensor] | None] = {}
        self._ceilings: dict[str, Ceiling | None] = {}
        self._odds: dict[str, tuple[list[int], list[Floats]]] = {}
        self._warned: set[tuple[str, int]] = set()
        self._closed = False
        self._watch = Watch(self._model, self._take, reads=reads)
        if not self._compiled:  # hooks would have it compiled anew
            self._watch.start()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Take every hook away. The rows stay."""
        self._watch.stop()
        if self._radii is not None and not self._closed:
            self._radii.close()
        self._closed = True

    def step(self) -> None:
        """An optimizer step was made: write down what was seen before it, if it was due.

        Raises Unsupported where a model's attention cannot be seen, with what to hand over.
        """
        if not self._watch.open:
            if self._compiled and not self.rows:
                self.close()
                raise Unsupported(COMPILED)
            self._step += 1
            if self._step >= self._next and not (self._closed or self._compiled):
                self._watch.start()
            return
        if self._found:
            self._write()
            self._next = _after(self._step, self.every)
            if self._step + 1 < self._next:
                self._watch.stop()
        elif not self.rows:
            ran = self._watch.ran
            self.close()
            raise Unsupported(not_seen(self._model, NOT_SEEN) if ran else NOT_RUN)
        self._step += 1

    @property
    def due(self) -> bool:
        """Whether the next forward is recorded; of a compiled model, whether to call `look`."""
        return not self._closed and self._step >= self._next

    def look(self, *args: Any, **kwargs: Any) -> list[Row]:
        """The rows of one more forward without gradients, model(*args), as it stands; recorded."""
        kept = self._found, self._norms, self._ceilings
        self._found, self._norms, self._ceilings = {}, {}, {}
        was = self._watch.open
        self._watch.stop()
        watch = Watch(self._model, self._take, reads=self._reads, always=True)
        fast = torch.backends.mha.get_fastpath_enabled()
        try:
            watch.start()
            torch.backends.mha.set_fastpath_enabled(False)
            with torch.no_grad(), torch.compiler.set_stance("force_eager"):
                self._model(*args, **kwargs)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            watch.stop()
            if was:
                self._watch.start()
        if not self._found:
            self._found, self._norms, self._ceilings = kept
            raise Unsupported(not_seen(self._model, NOT_SEEN))
        rows = self._write()
        self._found, self._norms, self._ceilings = kept
        if self._compiled:
            self._next = _after(self._step, self.every)
        return rows

    def _take(self, call: Call) -> None:
        self._found.setdefault(call.layer, []).append(per_query(call, self.queries, self._turn))
        if call.layer not in self._norms:
            self._norms[call.layer] = norms(call)
        ceiling = ceiling_of(call, self._radii)
        before = self._ceilings.get(call.layer)
        if before is not None and ceiling is not None:
            ceiling = Ceiling(*map(np.maximum, before, ceiling))
        self._ceilings[call.layer] = ceiling

    def _write(self) -> list[Row]:
        """Turn what was seen into rows."""
        made: list[Row] = []
        said: list[Saturation] = []
        for layer, parts in self._found.items():
            seen = torch.cat([torch.stack(part) for part in parts], dim=2)
            largest, entropy, gap, odds = seen.double().cpu().numpy()
            known, ceiling = self._norms[layer], self._ceilings[layer]
            nothing = np.full(len(odds), np.nan)
            sizes = (nothing, nothing) if known is None else [x.cpu().numpy() for x in known]
            bounds = (nothing, nothing) if ceiling is None else ceiling
            count = (~np.isnan(odds)).sum(axis=1)
            few = np.where(count > 0, count, np.nan)
            columns = (
                np.fmax.reduce(largest, axis=1),
                np.nansum(entropy, axis=1) / few,
                _medians(gap, count),
                _medians(odds, count),
                (odds >= self.target).sum(axis=1) / few,
                *sizes,
                *bounds,
            )
            lists = [column.tolist() for column in columns]
            for h, numbers in enumerate(zip(*lists, strict=True)):
                made.append(Row._make((self._step, layer, h, *numbers, int(count[h]))))
            said += self._judged(layer, columns[3])
        self._found, self._norms, self._ceilings = {}, {}, {}
        self._turn += 1
        self.rows += made
        if self.writer is not None:
            write_scalars(self.writer, made)
        for one in said:
            self.warnings.append(one)
            warnings.warn(one.message, SaturationWarning, stacklevel=3)
        return made

    @property
    def target(self) -> float:
        """The odds from which a query is saturated, log(level/(1 − level))."""
        return math.log(self.level) - math.log1p(-self.level)

    def _judged(self, layer: str, odds: Floats) -> list[Saturation]:
        """Heads that are about to saturate, within a doubling of the steps; each is said once."""
        steps, past = self._odds.setdefault(layer, ([], []))
        if not steps or steps[-1] != self._step:
            steps.append(self._step)
            past.append(odds)
        out = []
        courses = courses_of(steps, np.stack(past[-LATEST:]), self.target)
        for head, found in enumerate(courses):
            if odds[head] >= self.target:
                found = Course(self._step, self._step, self._step)
            if found is None or found.expected > 2 * self._step or (layer, head) in self._warned:
                continue
            if not math.isnan(odds[head]):
                self._warned.add((layer, head))
                out.append(Saturation(self._step, layer, head, *found))
        return out

    def to_csv(self, file: str | Path) -> None:
        """Write the rows as a table, one line a row, in one move."""
        lines = [",".join(Row._fields)]
        for row in self.rows:
            layer = f'"{row.layer}"' if "," in row.layer else row.layer
            numbers = ",".join(repr(x) for x in row[3:])
            lines.append(f"{row.step},{layer},{row.head},{numbers}")
        with beside(file_path(file, "file")) as target:
            target.write_text("\n".join(lines) + "\n", "utf-8")

    def to_tensorboard(self, folder: str | Path) -> None:
        """Write the rows for TensorBoard. Raises Unsupported where it is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise Unsupported(
                "TensorBoard is not installed: pip install tensorboard, or use to_csv"
            ) from None
        with SummaryWriter(str(file_path(folder, "folder"))) as writer:
            write_scalars(writer, self.rows)

    def figure(self) -> Figure:
        """The course of every head: logits and ceiling, entropy, saturated queries, norms."""
        from attsvm.plotting.attention import attention_figure

        if not self.rows:
            raise Unsupported("nothing was recorded yet: there is nothing to draw")
        return attention_figure(self.rows, self.warnings, level=self.level)


def _medians(x: Floats, count: Floats) -> Floats:
    """The medians of rows with so many numbers each, the others nan."""
    ordered = np.sort(x, axis=1)  # nan last
    rows, last = np.arange(len(x)), np.maximum(count - 1, 0)
    with np.errstate(invalid="ignore"):
        out: Floats = (ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2
    return out


def write_scalars(writer: Any, rows: Iterable[Row]) -> None:
    """Give the known numbers of rows to writer.add_scalar(name, value, step)."""
    for row in rows:
        for name in NUMBERS:
            value = getattr(row, name)
            if math.isfinite(value):
                writer.add_scalar(f"{row.layer}/head {row.head}/{name}", value, row.step)


def _after(step: int, every: int) -> int:
    """The next step to be recorded."""
    way = max(math.ceil(step * 10 ** (1 / PER_DECADE)) - step, 1 if step < 2 else LEAST_WAY)
    return step + min(way, every)

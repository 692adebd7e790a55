"""Monitor: what every attention head of a model does while it is trained.

    monitor = attsvm.torch.Monitor(model, optimizer)
    for batch in data:
        loss(model(batch)).backward()
        optimizer.step()
        monitor.step()

Records are spaced evenly on a logarithmic scale; between two of them nothing is hooked and a step
costs nothing. Outputs, gradients and random numbers are those of a model that is not monitored.

A query is saturated when its largest attention p is at least `level`, an attention head when half
of its queries are: when the median m of log(p/(1 − p)) is at least log(level/(1 − level)). Under
steps of one length margins grow like the number of steps t, under plain descent like log t. So m is
extrapolated by a line over t and by one over log t, through the last records; the one that fits
better gives the estimate, the two together the range.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
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
from attsvm.torch.calls import AttentionHooks, Call, Reads, not_seen, reading, sample
from attsvm.torch.ceilings import Ceiling, Radii, ceiling_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Records in a tenfold of steps, and the steps from one to the next after the first two.
PER_DECADE, LEAST_WAY = 7, 2
# Records that a line is fitted to, and how many times its standard error a slope must be.
LATEST, SURE = 6, 2.0
NOT_SEEN = (
    "no attention of this model can be read: it has no nn.MultiheadAttention and does not call "
    "torch.nn.functional.scaled_dot_product_attention by that name; give "
    "Monitor(model, reads=f), where f(model) yields (layer, q, k) after each forward, q and k of "
    "shape (B, H, L, dh)"
)
NOT_RUN = (
    "no forward of this model with gradients was read before step(): give Monitor the module that "
    "is called, or call monitor.look(batch)"
)
COMPILED = (
    "a compiled model runs without hooks: where monitor.due, call monitor.look(batch) before "
    "monitor.step(); it runs the uncompiled model once more"
)


class MonitorRow(NamedTuple):
    """One attention head of one layer at one step, over the sampled queries of its batch.

    step: optimizer steps made before the forward. largest: the largest logit scale · q·k. entropy:
    mean, in nats. gap: median difference of the two largest logits. odds: median of log(p/(1 − p))
    of the largest attention p. saturated: share of queries with p at least the level. frobenius,
    spectral: norms of W = scale · W_Kᵀ[W_Q b_q]. ceiling: no |logit| of this batch is larger, by
    the steps made; limit: none will ever be, at the present step size and decay and for inputs
    such as these. queries: how many were sampled. nan: not known.

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


class Monitor:
    """Follows the attention heads of a model in training; call `step()` after each optimizer step.

    model: any module that attends by nn.MultiheadAttention or scaled_dot_product_attention, in
    forwards with gradients; of others, reads: a function f(model) that yields (layer, q, k) or
    `AttentionInputs` after each forward. optimizer: what trains it; without it no ceiling is known.
    queries: at most so many of a call are sampled. every: the longest way between two records, in
    steps. level: the attention from which a query counts as saturated. writer: an object with
    add_scalar(name, value, step), such as TensorBoard's SummaryWriter, written to at each record.
    A compiled model has no hooks: call `look(batch)` where `due`.

    rows: what was recorded. warnings: the attention heads that were warned of, once each.

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
        self.rows: list[MonitorRow] = []
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
        self._found: dict[str, _LayerCalls] = {}
        self._odds: dict[str, tuple[list[int], list[Floats]]] = {}
        self._warned: set[tuple[str, int]] = set()
        self._closed = False
        self._hooks = AttentionHooks(self._model, self._take, reads=reads)
        if not self._compiled:  # hooks would have it compiled anew
            self._hooks.start()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Remove every hook. The rows stay."""
        self._hooks.stop()
        if self._radii is not None and not self._closed:
            self._radii.close()
        self._closed = True

    def step(self) -> None:
        """Record what was read before the optimizer step that was just made, if a record was due.

        Raises Unsupported where the attention of the model cannot be read, with what to do.
        """
        if not self._hooks.open:
            if self._compiled and not self.rows:
                self.close()
                raise Unsupported(COMPILED)
            self._step += 1
            if self._step >= self._next and not (self._closed or self._compiled):
                self._hooks.start()
            return
        if self._found:
            self._write()
            self._next = _after(self._step, self.every)
            if self._step + 1 < self._next:
                self._hooks.stop()
        elif not self.rows:
            ran = self._hooks.ran
            self.close()
            raise Unsupported(not_seen(self._model, NOT_SEEN) if ran else NOT_RUN)
        self._step += 1

    @property
    def due(self) -> bool:
        """Whether the next forward is recorded; of a compiled model, whether to call `look`."""
        return not self._closed and self._step >= self._next

    def look(self, *args: Any, **kwargs: Any) -> list[MonitorRow]:
        """Record one more forward without gradients, model(*args), and return its rows."""
        kept, self._found = self._found, {}
        was = self._hooks.open
        self._hooks.stop()
        open_ = reading(self._model, self._take, reads=self._reads)
        try:
            with open_, torch.compiler.set_stance("force_eager"):
                self._model(*args, **kwargs)
        finally:
            if was:
                self._hooks.start()
        if not self._found:
            self._found = kept
            raise Unsupported(not_seen(self._model, NOT_SEEN))
        rows = self._write()
        self._found = kept
        if self._compiled:
            self._next = _after(self._step, self.every)
        return rows

    def _take(self, call: Call) -> None:
        part, ceiling = per_query(call, self.queries, self._turn), ceiling_of(call, self._radii)
        layer = self._found.get(call.layer)
        if layer is None:
            self._found[call.layer] = _LayerCalls([part], norms(call), ceiling)
            return
        layer.parts.append(part)
        if layer.ceiling is not None and ceiling is not None:
            ceiling = Ceiling(*map(np.maximum, layer.ceiling, ceiling))
        layer.ceiling = None if layer.ceiling is None else ceiling

    def _write(self) -> list[MonitorRow]:
        """Turn what was read into rows."""
        made: list[MonitorRow] = []
        said: list[Saturation] = []
        for layer, calls in self._found.items():
            seen = torch.cat(calls.parts, dim=2)
            largest, entropy, gap, odds = seen.double().cpu().numpy()
            nothing = np.full((2, len(odds)), np.nan)
            sizes = nothing if calls.norms is None else calls.norms.cpu().numpy()
            bounds = nothing if calls.ceiling is None else calls.ceiling
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
            for h, numbers in enumerate(zip(*(x.tolist() for x in columns), strict=True)):
                made.append(MonitorRow._make((self._step, layer, h, *numbers, int(count[h]))))
            said += self._predict(layer, columns[3])
        self._found = {}
        self._turn += 1
        self.rows += made
        if self.writer is not None:
            for row in made:
                for name, value in zip(row._fields[3:], row[3:], strict=True):
                    if math.isfinite(value):
                        tag = f"{row.layer}/head {row.head}/{name}"
                        self.writer.add_scalar(tag, value, row.step)
        for one in said:
            self.warnings.append(one)
            warnings.warn(one.message, SaturationWarning, stacklevel=3)
        return made

    @property
    def target(self) -> float:
        """The odds from which a query is saturated, log(level/(1 − level))."""
        return math.log(self.level) - math.log1p(-self.level)

    def _predict(self, layer: str, odds: Floats) -> list[Saturation]:
        """The heads that saturate within a doubling of the steps made; each is reported once."""
        steps, past = self._odds.setdefault(layer, ([], []))
        if not steps or steps[-1] != self._step:
            steps.append(self._step)
            past.append(odds)
        out = []
        for head, found in enumerate(extrapolate(steps, np.stack(past[-LATEST:]), self.target)):
            if odds[head] >= self.target:
                found = self._step, self._step, self._step
            if found is None or found[0] > 2 * self._step or (layer, head) in self._warned:
                continue
            if not math.isnan(odds[head]):
                self._warned.add((layer, head))
                out.append(Saturation(self._step, layer, head, *found))
        return out

    def to_csv(self, file: str | Path) -> None:
        """Write the rows as a table, one line a row, in one move."""
        lines = [",".join(MonitorRow._fields)]
        for row in self.rows:
            layer = f'"{row.layer}"' if "," in row.layer else row.layer
            numbers = ",".join(repr(x) for x in row[3:])
            lines.append(f"{row.step},{layer},{row.head},{numbers}")
        with beside(file_path(file, "file")) as target:
            target.write_text("\n".join(lines) + "\n", "utf-8")

    def figure(self) -> Figure:
        """Plot every attention head over steps: logits, ceiling, entropy, saturation, norms."""
        from attsvm.plotting.networks import attention_figure

        if not self.rows:
            raise Unsupported("nothing was recorded yet: there is nothing to plot")
        return attention_figure(self.rows, self.warnings, level=self.level)


@dataclass
class _LayerCalls:
    """What the calls of a layer gave: numbers of queries, norms and ceiling, None if not known."""

    parts: list[Tensor]
    norms: Tensor | None
    ceiling: Ceiling | None


def _medians(x: Floats, count: Floats) -> Floats:
    """The medians of rows with so many numbers each, the others nan."""
    ordered = np.sort(x, axis=1)  # nan last
    rows, last = np.arange(len(x)), np.maximum(count - 1, 0)
    with np.errstate(invalid="ignore"):
        out: Floats = (ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2
    return out


def _after(step: int, every: int) -> int:
    """The next step to be recorded."""
    way = max(math.ceil(step * 10 ** (1 / PER_DECADE)) - step, 1 if step < 2 else LEAST_WAY)
    return step + min(way, every)


def per_query(call: Call, most: int, turn: int) -> Tensor:
    """Four numbers of at most `most` queries of a call: (4, H, queries), nan with one key or none.

    largest: the largest scale · q·k, without what a mask adds. entropy: of attention, in nats. gap:
    between the two largest logits. odds: log(p/(1 − p)) of the largest attention p.
    """
    raw, logits = call.logits(*sample(call.size, most, turn, call.like.device))
    if logits.shape[-1] < 2:
        numbers = torch.full((4, *logits.shape[:-1]), torch.nan, device=logits.device)
        return numbers.transpose(1, 2).reshape(4, logits.shape[1], -1)
    top = logits.topk(2, dim=-1)
    first, second = top.values.unbind(dim=-1)
    others = logits.scatter(-1, top.indices[..., :1], -torch.inf)
    rest = torch.logsumexp(others, dim=-1)
    whole = torch.logaddexp(first, rest)
    p = torch.exp(logits - whole[..., None])
    if raw is logits:  # no mask: every query has every key
        mean, largest = (p * logits).sum(dim=-1), first
    else:
        shut = torch.isneginf(logits)
        mean = (p * logits.masked_fill(shut, 0.0)).sum(dim=-1)
        largest = raw.masked_fill(shut, -torch.inf).amax(dim=-1)
    numbers = torch.stack([largest, (whole - mean).clamp(min=0.0), first - second, first - rest])
    if raw is not logits:
        numbers.masked_fill_((~shut).sum(dim=-1) < 2, torch.nan)
    return numbers.transpose(1, 2).reshape(4, logits.shape[1], -1)


def norms(call: Call) -> Tensor | None:
    """Frobenius and spectral norms (2, H) of W = scale · W_Kᵀ [W_Q b_q]; None where not known.

    With A = [W_Q b_q] and K = W_K (dh rows each), ‖Kᵀ A‖_F² = ⟨K Kᵀ, A Aᵀ⟩, and the spectral norm
    is the root of the largest eigenvalue of R (A Aᵀ) R with R the root of K Kᵀ: matrices of head
    width, never of model width.
    """
    found = call.weights()
    if found is None:
        return None
    A, K = found
    if A.shape[1] >= min(A.shape[2], K.shape[2]):  # as wide as the model: W itself is no larger
        W = K.transpose(1, 2) @ A
        size, top = torch.linalg.matrix_norm(W), torch.linalg.matrix_norm(W, 2)
        return torch.stack([size, top]) * abs(call.scale)
    GA, GK = A @ A.transpose(1, 2), K @ K.transpose(1, 2)
    size = (GA * GK).sum(dim=(1, 2)).clamp(min=0).sqrt()
    value, vector = torch.linalg.eigh(GK)
    R = vector * value.clamp(min=0).sqrt()[:, None, :]
    top = torch.linalg.eigvalsh(R.transpose(1, 2) @ GA @ R)[:, -1].clamp(min=0).sqrt()
    return torch.stack([size, top]) * abs(call.scale)


class SaturationWarning(UserWarning):
    """An attention head of a model in training is about to saturate, or has.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SaturationWarning)  # of a run that is meant to saturate
    >>> issubclass(SaturationWarning, UserWarning)
    True
    """


class Saturation(NamedTuple):
    """The warning of one attention head, given at `step`: when it is expected to saturate.

    expected: the step that the better fit gives, between `first` and `last`; `step` itself where
    the head is saturated already.

    >>> Saturation(40, "encoder", 2, 64, 55, 80).message.partition(" (")[0]
    'step 40: attention head 2 of encoder will be saturated at about step 64 at this pace'
    """

    step: int
    layer: str
    head: int
    expected: float
    first: float
    last: float

    @property
    def message(self) -> str:
        """One sentence."""
        who = f"step {self.step}: attention head {self.head} of {self.layer}"
        if self.expected <= self.step:
            return f"{who} is saturated: half of its queries give nearly all attention to one key"
        last = "never" if math.isinf(self.last) else f"step {self.last:,.0f}"
        return (
            f"{who} will be saturated at about step {self.expected:,.0f} at this pace "
            f"(between step {self.first:,.0f}, by a line over steps, and {last}, by a line over "
            "their logarithm)"
        )


def extrapolate(
    steps: Sequence[float], odds: Floats, target: float
) -> list[tuple[float, float, float] | None]:
    """When each column of odds (records, heads) below the target reaches it.

    (step of the better fit, first, last) of the two fits; None for odds that do not clearly rise.
    """
    t = np.asarray(steps[-LATEST:], dtype=np.float64)
    m = odds[-LATEST:]
    if len(t) < LATEST:
        return [None] * m.shape[1]
    known = np.isfinite(m).all(axis=0)
    m = np.where(known, m, 0.0)
    way = np.maximum(target - m[-1], 0.0)
    found: list[list[tuple[float, float]]] = [[] for _ in range(m.shape[1])]
    for x, back in ((t, float), (np.log1p(t), _back)):
        slope, error, residual = _lines(x, m)
        for head in np.flatnonzero(known & (slope > 0) & (slope > SURE * error)):
            # From the last record on: what was reached stays reached.
            found[head].append((float(residual[head]), back(x[-1] + way[head] / slope[head])))
    ends = [[at for _, at in fits] for fits in found]
    return [
        (min(fits)[1], min(at), max(at)) if fits else None
        for fits, at in zip(found, ends, strict=True)
    ]


def _lines(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """(slope, its standard error, squared residuals) of least-squares lines, by column."""
    dx, dy = x - x.mean(), y - y.mean(axis=0)
    square = float(dx @ dx)
    if square == 0:
        nothing = np.full(y.shape[1], np.inf)
        return np.zeros(y.shape[1]), nothing, nothing
    slope = dx @ dy / square
    residual = ((dy - dx[:, None] * slope) ** 2).sum(axis=0)
    return slope, np.sqrt(residual / max(len(x) - 2, 1) / square), residual


def _back(x: float) -> float:
    """The step t with log(1 + t) = x."""
    return math.expm1(x) if x < 700 else math.inf

"""Monitor: what every attention head of a model does while it is trained.

    monitor = attsvm.torch.Monitor(model)
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
better gives the estimate, and both are reported.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attsvm._utils.arrays import Floats
from attsvm._utils.expected import number, shown, whole
from attsvm.errors import Unsupported
from attsvm.torch.calls import AttentionHooks, Call, not_seen, reading, sample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Records in a tenfold of steps, and the steps from one to the next after the first two.
PER_DECADE, LEAST_WAY = 7, 2
# Records that a line is fitted to, and how many times its standard error a slope must be.
LATEST, SURE = 6, 2.0
NOT_SEEN = (
    "no attention of this model can be read: it has no nn.MultiheadAttention and does not call "
    "torch.nn.functional.scaled_dot_product_attention by that name, which takes q and k of shape "
    "(B, H, L, dh)"
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
    spectral: norms of W = scale · W_Kᵀ[W_Q b_q]. queries: how many were sampled. name: L3H5 is head
    5 of the layer that attends after three others. nan: not known.

    >>> import torch
    >>> from attsvm.torch import Attention
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> monitor = Monitor(model)
    >>> out = model(torch.eye(2, dtype=torch.float64)[None])
    >>> monitor.step()
    >>> (row,) = monitor.rows
    >>> row.step, row.name, round(row.entropy, 4)  # log 2: two tokens, nothing learned
    (0, 'L0H0', 0.6931)
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
    queries: int
    name: str


class Monitor:
    """Follows the attention heads of a model in training; call `step()` after each optimizer step.

    model: any module that attends by nn.MultiheadAttention or scaled_dot_product_attention, in
    forwards with gradients. queries: at most so many of a call are sampled. every: the longest way
    between two records, in steps. level: the attention from which a query counts as saturated. A
    compiled model has no hooks: call `look(batch)` where `due`.

    rows: what was recorded. warnings: the attention heads that were warned of, once each.

    >>> import torch
    >>> from attsvm.torch import Attention, NormalizedGD
    >>> model = Attention([0.0, 1.0], shape=(2,))
    >>> optimizer = NormalizedGD(model.parameters(), lr=0.5)
    >>> monitor = Monitor(model)
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
        *,
        queries: int = 64,
        every: int = 200,
        level: float = 0.99,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise Unsupported(f"Monitor takes an nn.Module, this is {type(model).__name__}")
        queries, every = whole(queries, "queries", least=1), whole(every, "every", least=1)
        if not 0.5 < number(level) < 1:
            raise Unsupported(f"level is {shown(level)}: it must lie between 0.5 and 1")
        self.rows: list[MonitorRow] = []
        self.warnings: list[Saturation] = []
        self.level, self.every, self.queries = level, every, queries
        self._model = getattr(model, "_orig_mod", model)
        self._compiled = (
            self._model is not model or getattr(model, "_compiled_call_impl", None) is not None
        )
        self._step = self._turn = 0
        self._next = 0
        # By layer: numbers of the queries of each call, and norms, None where not known.
        self._found: dict[str, tuple[list[Tensor], Tensor | None]] = {}
        # By layer, in the order in which they attend, and by step: the odds of its heads.
        self._odds: dict[str, dict[int, Floats]] = {}
        self._closed = False
        self._hooks = AttentionHooks(self._model, self._take)
        if not self._compiled:  # hooks would have it compiled anew
            self._hooks.start()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Remove every hook. The rows stay."""
        self._hooks.stop()
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
        try:  # the hooks of training do not read where there are no gradients
            with reading(self._model, self._take), torch.compiler.set_stance("force_eager"):
                self._model(*args, **kwargs)
            if not self._found:
                raise Unsupported(not_seen(self._model, NOT_SEEN))
            rows = self._write()
        finally:
            self._found = kept
        if self._compiled:
            self._next = _after(self._step, self.every)
        return rows

    def _take(self, call: Call) -> None:
        part = per_query(call, self.queries, self._turn)
        if call.layer not in self._found:
            self._found[call.layer] = [], norms(call)
        self._found[call.layer][0].append(part)

    def _write(self) -> list[MonitorRow]:
        """Turn what was read into rows."""
        made: list[MonitorRow] = []
        said: list[Saturation] = []
        for layer, (parts, known) in self._found.items():
            largest, entropy, gap, odds = torch.cat(parts, dim=2).double().cpu().numpy()
            count = (~np.isnan(odds)).sum(axis=1)
            few = np.where(count > 0, count, np.nan)
            sizes = np.full((2, len(count)), np.nan) if known is None else known.cpu().numpy()
            columns = (
                np.fmax.reduce(largest, axis=1),
                np.nansum(entropy, axis=1) / few,
                *(pandas.DataFrame(x.T).median().to_numpy() for x in (gap, odds)),
                (odds >= self.target).sum(axis=1) / few,
                *sizes,
            )
            self._odds.setdefault(layer, {})[self._step] = columns[3]
            for h, numbers in enumerate(zip(*(x.tolist() for x in columns), strict=True)):
                row = (self._step, layer, h, *numbers, int(count[h]), self._name(layer, h))
                made.append(MonitorRow._make(row))
            said += self._predict(layer)
        self._found = {}
        self._turn += 1
        self.rows += made
        for one in said:
            self.warnings.append(one)
            warnings.warn(one.message, SaturationWarning, stacklevel=3)
        return made

    @property
    def target(self) -> float:
        """The odds from which a query is saturated, log(level/(1 − level))."""
        return math.log(self.level) - math.log1p(-self.level)

    def _name(self, layer: str, head: int) -> str:
        return f"L{list(self._odds).index(layer)}H{head}"

    def _predict(self, layer: str) -> list[Saturation]:
        """The heads that saturate within a doubling of the steps made; each is reported once."""
        past = self._odds[layer]
        odds = past[self._step]
        found = extrapolate(list(past), np.stack(list(past.values())), self.target)
        found[:, odds >= self.target] = self._step
        soon = np.isfinite(odds) & ~np.isnan(found[0])
        soon &= np.fmin(found[1], found[2]) <= 2 * self._step
        warned = {one.name for one in self.warnings}
        made = (
            (self._step, layer, head, *found[:, head].tolist(), self._name(layer, head))
            for head in np.flatnonzero(soon).tolist()
        )
        return [Saturation._make(one) for one in made if one[-1] not in warned]

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a table, a row for each attention head of each record."""
        return pandas.DataFrame(self.rows, columns=MonitorRow._fields)

    def figure(self) -> Figure:
        """Plot every attention head over steps: logits, entropy, saturation, norms.

        The heads that saturate, or were warned of, are named in the headline.
        """
        from attsvm.plotting.networks import attention_figure

        if not self.rows:
            raise Unsupported("nothing was recorded yet: there is nothing to plot")
        return attention_figure(self.rows, self.warnings, level=self.level)


def _after(step: int, every: int) -> int:
    """The next step to be recorded."""
    way = max(math.ceil(step * 10 ** (1 / PER_DECADE)) - step, 1 if step < 2 else LEAST_WAY)
    return step + min(way, every)


def per_query(call: Call, most: int, turn: int) -> Tensor:
    """Four numbers of at most `most` queries of a call: (4, H, queries), nan with one key or none.

    largest: the largest scale · q·k, without what a mask adds. entropy: of attention, in nats. gap:
    between the two largest logits. odds: log(p/(1 − p)) of the largest attention p.
    """
    raw, logits = call.logits(*sample(call.size, most, turn, call.q.device))
    if logits.shape[-1] < 2:
        raw, logits = (F.pad(x, (0, 1), value=-torch.inf) for x in (raw, logits))
    top = logits.topk(2, dim=-1)
    first, second = top.values.unbind(dim=-1)
    others = logits.scatter(-1, top.indices[..., :1], -torch.inf)
    rest = torch.logsumexp(others, dim=-1)
    whole = torch.logaddexp(first, rest)
    shut = torch.isneginf(logits)
    p = torch.exp(logits - whole[..., None])
    mean = (p * logits.masked_fill(shut, 0.0)).sum(dim=-1)
    largest = raw.masked_fill(shut, -torch.inf).amax(dim=-1)
    numbers = torch.stack([largest, (whole - mean).clamp(min=0.0), first - second, first - rest])
    numbers.masked_fill_((~shut).sum(dim=-1) < 2, torch.nan)
    return numbers.transpose(1, 2).reshape(4, logits.shape[1], -1)


def norms(call: Call) -> Tensor | None:
    """Frobenius and spectral norms (2, H) of W = scale · W_Kᵀ [W_Q b_q]; None where not known.

    With W_Kᵀ = U R and [W_Q b_q]ᵀ = V S these are the norms of R Sᵀ, of head width.
    """
    found = call.weights()
    if found is None:
        return None
    S, R = (torch.linalg.qr(x.mT, mode="r").R for x in found)
    core = R @ S.mT * call.scale
    return torch.stack([torch.linalg.matrix_norm(core), torch.linalg.matrix_norm(core, 2)])


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

    linear, log: the step by a line over steps and by one over their logarithm; nan where that line
    does not clearly rise. expected: that of the line that fits better. All are `step` where the
    head is saturated already.

    >>> Saturation(40, "encoder", 2, 64, 64, 80.4, "L0H2").message
    'step 40: L0H2 (encoder) at the current rate saturated at step 64 (linear fit) or 80 (log fit)'
    """

    step: int
    layer: str
    head: int
    expected: float
    linear: float
    log: float
    name: str

    @property
    def message(self) -> str:
        """One sentence."""
        who = f"step {self.step}: {self.name} ({self.layer})"
        if self.expected <= self.step:
            return f"{who} is saturated: half of its queries give nearly all attention to one key"
        fits = [
            f"{at:,.0f} ({name} fit)" if math.isfinite(at) else f"never ({name} fit)"
            for name, at in (("linear", self.linear), ("log", self.log))
            if not math.isnan(at)
        ]
        return f"{who} at the current rate saturated at step {' or '.join(fits)}"


def extrapolate(steps: Sequence[float], odds: Floats, target: float) -> Floats:
    """When each column of odds (records, heads) below the target reaches it, (3, heads).

    The step of the better fit, of the line over steps and of the line over their logarithm; nan for
    odds that do not clearly rise.
    """
    t, m = np.asarray(steps[-LATEST:], dtype=np.float64), odds[-LATEST:]
    out = np.full((3, m.shape[1]), np.nan)
    if len(t) < LATEST:
        return out
    known = np.isfinite(m).all(axis=0)
    m = np.where(known, m, 0.0)
    way = np.maximum(target - m[-1], 0.0)
    least = np.full(m.shape[1], np.inf)
    for fit, x in enumerate((t, np.log1p(t)), start=1):
        (slope, _), covariance = np.polyfit(x, m, 1, cov=True)
        square = covariance[0, 0]  # of the standard error
        rises = known & (slope > 0) & (slope > SURE * np.sqrt(square))
        # From the last record on: what was reached stays reached.
        at = x[-1] + way / np.where(rises, slope, 1.0)
        with np.errstate(over="ignore"):
            out[fit] = np.where(rises, at if fit == 1 else np.expm1(at), np.nan)
        residual = square * ((x - x.mean()) ** 2).sum()
        better = rises & (residual < least)
        out[0] = np.where(better, out[fit], out[0])
        least = np.where(better, residual, least)
    return out

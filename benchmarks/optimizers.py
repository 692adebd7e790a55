"""Steps of torch optimizers, side by side: ours, SGD, AdamW. One process, one thread, CPU time.

Every optimizer has parameters of its own, matrices of 1024 × 512, and takes whole steps; the
optimizers take turns, so that a slow moment of the machine meets them all. A ratio is the median
over the rounds of one step's time over that of its rival in the same round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attsvm.errors import Unsupported

_SHAPE = (1024, 512)
# The parameters of each size, in millions.
SIZES = (10.5, 100.0)
QUICK_SIZES = (2.1,)


@dataclass(frozen=True)
class Racer:
    """make(params) gives an optimizer; its step should cost at most `reach` times the rival's."""

    name: str
    make: Callable[[Any], Any]
    rival: str = ""
    reach: float | None = None


def racers() -> list[Racer]:
    """Every optimizer of the race."""
    from torch.optim import SGD, AdamW

    from attsvm.torch import MirrorDescent

    plain, fused = "SGD foreach", "AdamW fused"
    out = [
        Racer(plain, lambda x: SGD(x, lr=1e-3, foreach=True)),
        Racer(fused, lambda x: AdamW(x, lr=1e-3, fused=True)),
        Racer("AdamW foreach", lambda x: AdamW(x, lr=1e-3, foreach=True), fused),
    ]
    for p, rival, reach in (
        (1.1, fused, 1.1),
        (1.5, fused, 1.1),
        (2.0, plain, 1.1),
        (3.0, fused, 1.0),
        (1.3, fused, 2.0),
    ):
        make = partial(MirrorDescent, lr=1e-3, p=p)
        out.append(Racer(f"MirrorDescent p={p:g}", make, rival, reach))
    return out


def run(
    *, quick: bool = False, rounds: int = 15, progress: Callable[[str], None] | None = None
) -> list[dict[str, Any]]:
    """One row per size and optimizer: {parameters, name, ms, rival, ratio, reach, met}."""
    try:
        import torch
    except ImportError as error:
        raise Unsupported("the race of optimizers needs torch: pip install '.[torch]'") from error
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = []
        for millions in QUICK_SIZES if quick else SIZES:
            if progress is not None:
                progress(f"{millions:g} million parameters, {rounds} rounds")
            rows += _race(millions, rounds)
        return rows
    finally:
        torch.set_num_threads(before)


def _race(millions: float, rounds: int) -> list[dict[str, Any]]:
    """The rows of one size. The optimizers share the gradients, which no step changes."""
    import torch

    count = max(round(millions * 1e6 / (_SHAPE[0] * _SHAPE[1])), 1)
    draw = torch.Generator().manual_seed(0)
    gradients = [torch.randn(_SHAPE, generator=draw) for _ in range(count)]
    seconds: dict[str, list[float]] = {}
    every = racers()
    # Two at a time, the rival beside it: all at once would not fit into memory at 100 million.
    pairs: dict[str, list[Racer]] = {}
    for racer in every:
        pairs.setdefault(racer.rival or racer.name, []).append(racer)
    rows: dict[str, dict[str, Any]] = {}
    for first, group in pairs.items():
        rival = next(racer for racer in every if racer.name == first)
        for racer in [r for r in group if r.name != first] or [rival]:
            both = {
                r.name: _ready(r, gradients)
                for r in {rival.name: rival, racer.name: racer}.values()
            }
            seconds = {name: [] for name in both}
            for _ in range(rounds):
                for name, optimizer in both.items():
                    start = time.process_time()
                    optimizer.step()
                    seconds[name].append(time.process_time() - start)
            for name, taken in seconds.items():
                kept = rows.setdefault(name, {"name": name, "seconds": []})
                kept["seconds"] += taken
            if racer.name != first:
                shares = np.array(seconds[racer.name]) / np.array(seconds[first])
                rows[racer.name] |= {"rival": first, "ratio": float(np.median(shares))}
    asked = millions in SIZES
    return [_row(rows[racer.name], racer, count, asked=asked) for racer in every]


def _ready(racer: Racer, gradients: list[Any]) -> Any:
    """An optimizer with parameters of its own that has taken its first two steps."""
    import torch

    draw = torch.Generator().manual_seed(1)
    params = [torch.nn.Parameter(0.02 * torch.randn(_SHAPE, generator=draw)) for _ in gradients]
    for x, g in zip(params, gradients, strict=True):
        x.grad = g
    optimizer = racer.make(params)
    optimizer.step()
    optimizer.step()
    return optimizer


def _row(kept: dict[str, Any], racer: Racer, count: int, *, asked: bool) -> dict[str, Any]:
    """The row of a racer; how far it should reach is asked at the sizes of the whole race."""
    ratio, reach = kept.get("ratio"), racer.reach if asked else None
    met = None if ratio is None or reach is None else bool(ratio <= reach)
    return {
        "parameters": count * _SHAPE[0] * _SHAPE[1],
        "name": racer.name,
        "ms": 1e3 * float(np.median(kept["seconds"])),
        "rival": racer.rival or None,
        "ratio": ratio,
        "reach": reach,
        "met": met,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text."""
    out = [f"{'parameters':>11}  {'optimizer':<29} {'ms':>8}  {'ratio':>6}  {'reach':>6}"]
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        reach = "" if row["reach"] is None else f"≤ {row['reach']:g}"
        state = {True: "met", False: "missed", None: ""}[row["met"]]
        rival = f" of {row['rival']}" if row["rival"] else ""
        out.append(
            f"{row['parameters']:>11,}  {row['name']:<29} {row['ms']:>8.2f}  {ratio:>6}  "
            f"{reach:>6}  {state}{rival}"
        )
    return "\n".join(line.rstrip() for line in out)

"""The last step of a run: kept when it is recorded, taken again when it is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attsvm.claims.shared.ledger import UNKNOWN, Doubt, Ledger
from attsvm.doors import train as train_in_full
from attsvm.ground.arrays import Floats, Ints
from attsvm.heads import Head
from attsvm.heads.relu import Relu
from attsvm.norms import norm_of
from attsvm.rules import rule_of, schedule_of
from attsvm.training.path import Path
from attsvm.training.record import grid

# What a run that goes on is given again.
_AGAIN = ("head", "schedule", "embedding")
# How far a step may be from the steepest one, as a share of it: rounding of the difference of two
# records.
_TURN = 1e-6


def recorded_run(ledger: Ledger, tokens: Any, given: dict[str, Any]) -> Path:
    """The run in two parts, all steps but one and the last: the same run to the last bit."""
    before = train_in_full(tokens, **{**given, "steps": given["steps"] - 1})
    name, _ = ledger.call(before.size, _kind(before, given))
    ledger.arrays |= {f"{name}{block}": a[-1] for block, a in before.weights.items()}
    ledger.arrays |= {f"{name}state.{part}": np.asarray(a) for part, a in before.state.items()}
    path = train_in_full(tokens, start=before, steps=1, **_again(given))
    if _leaps(path):
        ledger.arrays |= {f"{name}after.{block}": a[-1] for block, a in path.weights.items()}
    return path


def replayed_run(ledger: Ledger, tokens: Any, given: dict[str, Any]) -> Path:
    """The run as far as it is known: its start, its end, and all records of chosen instances."""
    first = train_in_full(tokens, **{**given, "steps": 0})
    name, full = ledger.call(first.size, _kind(first, given))
    steps = grid(0, given["steps"], first.records)
    if steps[-1] != given["steps"]:
        steps = np.append(steps, given["steps"])
    path = _veiled(first, steps)
    if ledger.chosen is not None:
        _fill(path, 0, _late(ledger, name, tokens, given, first), range(first.size), last=True)
    if full:
        part = _subset(tokens, given, first, full)
        if not np.array_equal(part.steps, steps):
            raise Doubt(f"run {name} has other steps than its config asks for")
        _fill(path, slice(None), part, full)
    return path


def _late(ledger: Ledger, name: str, tokens: Any, given: dict[str, Any], first: Path) -> Path:
    """The last step, taken again from the record before it."""
    before: dict[str, Floats] = {}
    for block, start in first.weights.items():
        before[block] = np.asarray(ledger.read(f"{name}{block}"))[None]
        if before[block].shape != start.shape or not np.isfinite(before[block]).all():
            raise Doubt(f"the array {name}{block} is not a record of its run")
    state = {part: np.asarray(ledger.read(f"{name}state.{part}")) for part in first.state}
    late = replace(first, steps=np.array([given["steps"] - 1]), weights=before, state=state)
    if not _leaps(first):
        return train_in_full(tokens, start=late, steps=1, **_again(given))
    after = {block: np.asarray(ledger.read(f"{name}after.{block}")) for block in before}
    _require_steepest(tokens, given, late, after)
    # The end on file, with its loss and its top tokens.
    plain = {**first.config, "rule": "ngd", "lr": 1e-300, "decay": 0.0}
    ended = replace(late, weights={block: a[None] for block, a in after.items()}, config=plain)
    return replace(
        train_in_full(tokens, start=ended, steps=1, **_again(given)), weights=ended.weights
    )


def _leaps(path: Path) -> bool:
    """Whether the rule's step is not continuous in the gradient, so that rounding can turn it."""
    return path.config["rule"] in ("sign", "spectral")


def _require_steepest(
    tokens: Any, given: dict[str, Any], late: Path, after: dict[str, Floats]
) -> None:
    """Raises Doubt unless x ← (1 − λη) x − η D led there, ‖D‖ = 1 and ⟨G, D⟩ = ‖G‖_dual."""
    config = late.config
    norm = norm_of(str(rule_of(config["rule"]).norm))
    step = int(late.steps[0])
    eta = config["lr"] * schedule_of(given.get("schedule", "constant"))(step)
    unit = replace(late, config={**config, "rule": "ngd", "lr": 1.0, "decay": 0.0})
    constant = {**_again(given), "schedule": lambda step: 1.0}
    turned = train_in_full(tokens, start=unit, steps=1, **constant)
    for block, x in late.weights.items():
        G = x[0] - turned.weights[block][-1]
        D = ((1 - config["decay"] * eta) * x[0] - after[block]) / eta
        for b in range(len(G)):
            g, d = (a[b].reshape(a.shape[1], -1) for a in (G, D))
            right = float(np.vdot(g, d)) >= (1 - _TURN) * float(norm.dual(g))
            if not right or float(norm.value(d)) > 1 + _TURN:
                raise Doubt(f"the last step of instance {b} of a {config['rule']} run is not one")


def _kind(path: Path, given: dict[str, Any]) -> str:
    if path.config["model"] == "factored":
        return "factors"
    # A run that crosses the kinks of a head leaps there, and enlarges what rounding changes.
    if _leaps(path) or isinstance(given.get("head"), Relu):
        return "leaps"
    return "mirror" if "mirror" in path.config["rule"] else "run"


def _again(given: dict[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in _AGAIN if key in given}


def _veiled(first: Path, steps: Ints) -> Path:
    """A path with these steps of which the start alone is known."""
    R = len(steps)

    def floats(a: Floats) -> Floats:
        out = np.full((R, *a.shape[1:]), np.nan)
        out[0] = a[0]
        return out

    top = np.full((R, *first.top.shape[1:]), UNKNOWN)
    top[0] = first.top[0]
    return replace(
        first,
        steps=steps,
        weights={name: floats(a) for name, a in first.weights.items()},
        loss=floats(first.loss),
        log_gradient=floats(first.log_gradient),
        top=top,
        sureness=floats(first.sureness),
        clock=np.full((R, first.size), np.nan),
        changed=np.full(first.changed.shape, UNKNOWN),
    )


def _fill(path: Path, rows: Any, part: Path, places: Sequence[int], *, last: bool = False) -> None:
    """Put the records of a path of these instances in their places; last: its end alone."""
    rows, source = (-1, -1) if last else (rows, slice(None))
    columns: list[tuple[Any, Any]]
    columns = [(path.weights[name], part.weights[name]) for name in path.weights]
    columns += [(path.loss, part.loss), (path.log_gradient, part.log_gradient)]
    columns += [(path.top, part.top), (path.sureness, part.sureness)]
    for into, found in columns:
        into[rows, list(places)] = found[source]
    if not last:
        path.clock[:, list(places)] = part.clock
        path.changed[list(places)] = part.changed


def _subset(tokens: Any, given: dict[str, Any], first: Path, places: list[int]) -> Path:
    """The whole run of these instances of a stack, from their own starts."""
    if first.size == 1:
        return train_in_full(tokens, **given)
    init = {name: a[0][places] for name, a in first.weights.items()}
    head = given.get("head")
    if isinstance(head, Head):
        head = replace(head, **{head.block: getattr(head, head.block)[places]})  # type: ignore[type-var]
    elif head is not None and not isinstance(head, str) and np.ndim(head) == 2:
        head = np.asarray(head)[places]
    return train_in_full([tokens[b] for b in places], **{**given, "init": init, "head": head})

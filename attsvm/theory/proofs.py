"""Proofs of convergence along runs: at the end of one, the first record that has one, and a stop.

A run is covered where its model has W as its one block (weight, prompt), its optimizer and loss
have a theorem, its head is linear and fixed, and it has no weight decay and no schedule of one's
own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.errors import Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.convergence.prove import prover
from attsvm.theory.convergence.prover import Prover
from attsvm.training.config import pulled_back
from attsvm.training.heads import Head, Linear
from attsvm.training.models import MODELS
from attsvm.training.models.model import Evaluation, Model
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.optimizers.steps import SCHEDULES
from attsvm.training.path import Path, recorded

# Attention below this on some top token: no proof is tried, none of the theorems reaches so far.
_SURE = 0.5


class Since(NamedTuple):
    """The first record with a proof: its index, its step, and the proof."""

    record: int
    step: int
    proof: ConvergenceProof


def prover_of(
    config: Mapping[str, Any], form: Model, tokens: Tokens, head: Any, step: int = 0
) -> Prover:
    """The Prover of a run from its config; raises Unsupported for a run without a theorem.

    step: where the proof begins; a falling schedule has shorter steps from there on.
    """
    if not form.fused or form.trains_head or form is not MODELS.get(form.name):
        raise Unsupported(
            f"no theorem of convergence covers model {form.name!r}: it covers weight and prompt"
        )
    lr, steady = covered_step(config, step)
    return prover(
        tokens, head=head, optimizer=config["optimizer"], lr=lr, loss=config["loss"], steady=steady
    )


def covered_step(config: Mapping[str, Any], step: int) -> tuple[float, bool]:
    """The longest step of a run from this step on, and whether all have that length.

    Raises Unsupported for what makes steps that no theorem covers.
    """
    if pulled_back(config):
        raise Unsupported("no theorem of convergence covers weight decay or a ridge")
    schedule = config.get("schedule", "constant")
    if schedule not in SCHEDULES:
        raise Unsupported(
            "no theorem of convergence covers a schedule of one's own, whose steps are not known: "
            f"it covers {', '.join(SCHEDULES)}"
        )
    if "optimizer" in config.get("outside", ()) or "loss" in config.get("outside", ()):
        raise Unsupported("no theorem of convergence covers an optimizer or a loss of one's own")
    return float(config["lr"]) * SCHEDULES[schedule](step), schedule == "constant"


def proof_of_run(
    path: Path,
    tokens: Tokens,
    head: Any,
    *,
    instance: int = 0,
    record: int = -1,
    model: Model | None = None,
) -> ConvergenceProof:
    """The proof for one record of one instance of a path; raises Unsupported without a theorem."""
    form: Any = path.form(model)
    one = one_head(head, instance)
    made = prover_of(path.config, form, tokens, one, int(path.steps[record]))
    return made.prove(form.matrix(path.at(record))[instance])


def proved_since(
    path: Path, tokens: Tokens, head: Any, *, instance: int = 0, model: Model | None = None
) -> Since | None:
    """The first record from which the run is proved to converge, None where its end is not.

    Found by halving, as if records with a proof came last; the one named has a proof in any case.
    """
    form: Any = path.form(model)
    one = one_head(head, instance)
    made = prover_of(path.config, form, tokens, one, int(path.steps[-1]))

    def at(record: int) -> ConvergenceProof:
        step = int(path.steps[record])
        own = made if made.steady else prover_of(path.config, form, tokens, one, step)
        return own.prove(form.matrix(path.at(record))[instance], explain=False)

    held = (path.top[:, instance] == path.top[-1, instance]).all(axis=1)
    loose = (~held).nonzero()[0]
    low = int(loose[-1]) if len(loose) else -1
    high = len(path.steps) - 1
    best = at(high)
    if not best.proved:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        if tried.proved:
            high, best = middle, tried
        else:
            low = middle
    return Since(high, int(path.steps[high]), best)


def until_proved(
    tokens: Tokens | Sequence[Tokens],
    head: Any,
    config: Mapping[str, Any],
    *,
    model: Model,
) -> Callable[[int, Blocks, Evaluation], bool]:
    """A `stop` for `train`: every instance is proved to converge.

    config: optimizer, lr, loss, schedule and decay of the run. Looked at on the grid of records
    only; an instance that has been proved is not looked at again.
    """
    listed = [tokens] if isinstance(tokens, Tokens) else list(tokens)
    provers = [
        prover_of(config, model, instance, one_head(head, b)) for b, instance in enumerate(listed)
    ]
    open_ = set(range(len(listed)))

    def stop(step: int, params: Blocks, found: Evaluation) -> bool:
        if not recorded(step):
            return False
        least = np.take_along_axis(found.logs, found.top[:, :, None], 2)[:, :, 0].min(axis=1)
        matrices = model.matrix(params)
        for b in sorted(open_):
            if least[b] < np.log(_SURE):
                continue
            made = provers[b]
            if not made.steady:
                made = prover_of(config, model, listed[b], one_head(head, b), step)
            if made.prove(matrices[b], explain=False).proved:
                open_.discard(b)
        return not open_

    return stop


def one_head(head: Any, instance: int) -> Floats | None:
    """The linear head of one instance (d,), from one vector or a stack; None for other heads."""
    if isinstance(head, Head):  # one's own is linear by its own word alone
        head = head.v if type(head) is Linear else None
    if head is None:
        return None
    v = np.asarray(head, dtype=np.float64)
    if v.ndim == 2:
        v = v[instance if len(v) > 1 else 0]
    return v if v.ndim == 1 else None

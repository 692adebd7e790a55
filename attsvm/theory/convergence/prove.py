"""proof_of_convergence(): from a W and a way of training to a proof, or to what blocks it.

And proofs along runs: the first record that has one, and a stop. A run is covered where its model
has W as its one block (weight, prompt), its optimizer and loss have a theorem, its head is linear
and fixed, and it has no weight decay and no custom schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, detached, numbers, rectangular, vector
from attsvm._utils.expected import listed as instances
from attsvm._utils.expected import shown
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.proof import ConvergenceProof, unsupported
from attsvm.theory.convergence.prover import Prover, prover_for
from attsvm.training.config import pulled_back
from attsvm.training.heads import Head, Linear
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import MODELS
from attsvm.training.models.model import Evaluation, Model
from attsvm.training.optimizers import RuleLike, optimizer_of
from attsvm.training.optimizers.optimizer import Blocks
from attsvm.training.optimizers.steps import SCHEDULES
from attsvm.training.path import Path, recorded


def proof_of_convergence(
    tokens: Tokens,
    W: Any,
    *,
    head: Any,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
) -> ConvergenceProof:
    """The proof for one W, or what blocks it; `attsvm.proof_of_convergence` takes sentences too."""
    return prover(tokens, head=head, optimizer=optimizer, lr=lr, loss=loss).prove(
        check_W(tokens, W)
    )


def proofs_of_convergence(
    tokens: Sequence[Tokens],
    W: Any,
    *,
    head: Any,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
) -> list[ConvergenceProof]:
    """Prove convergence for each of B instances, as `proof_of_convergence` does for one.

    Parameters
    ----------
    tokens : sequence of Tokens
    W : array (B, d, dq)
        Or prompts (B, d).
    head : array (d,) or (B, d)
        One linear prediction head for all instances, or one each.
    optimizer, lr, loss
        As in `proof_of_convergence`.

    Returns
    -------
    list of ConvergenceProof

    Examples
    --------
    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> W = [[0.0, 30.0], [30.0, 0.0]]  # two prompts
    >>> found = attsvm.proofs_of_convergence([tokens, tokens], W, head=[0.2, 0.7], lr=0.1)
    >>> [proof.theorem for proof in found]
    ['cone', None]
    """
    listed = instances(tokens, "tokens", of="Tokens")
    weights = numbers(detached(W), "W")
    if weights.ndim < 2 or len(weights) != len(listed):
        raise BadTokens(f"W has shape {weights.shape}: it must hold one matrix for each instance")
    heads = [head] * len(listed)
    axes = 0 if isinstance(head, Head) else rectangular(detached(head), "head").ndim
    if axes == 2 and len(head) > 1:
        if len(head) != len(listed):
            raise BadTokens(f"{len(head)} heads for {len(listed)} instances: give one, or one each")
        heads = list(head)
    return [
        proof_of_convergence(one, M, head=v, optimizer=optimizer, lr=lr, loss=loss)
        for one, M, v in zip(listed, weights, heads, strict=True)
    ]


def prover(
    tokens: Tokens,
    *,
    head: Any,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
    steady: bool = True,
) -> Prover:
    """The Prover of one instance, for many W; steady: every step has length lr, none is shorter."""
    if not isinstance(tokens, Tokens):
        raise BadTokens(f"a proof of convergence takes Tokens, this is {type(tokens).__name__}")
    size = _size(lr)
    if not 0 < size < np.inf:
        raise Unsupported(f"lr is {shown(lr)}: a proof needs a positive step")
    v, made = _vector(head, tokens), optimizer_of(optimizer)
    return prover_for(made, tokens, v, loss_of(loss), size, steady=steady)


def _size(lr: Any) -> float:
    """A step size as a float; 0 for what is none."""
    if isinstance(lr, bool) or not isinstance(lr, Real):
        return 0.0
    with suppress(OverflowError):
        return float(lr)
    return 0.0


def check_W(tokens: Tokens, W: Any) -> Floats:
    """W as a finite float64 matrix (d, dq)."""
    shape = (int(tokens.keys.shape[2]), int(tokens.queries.shape[1]))
    array = numbers(detached(W), "W").astype(np.float64)
    if array.ndim == 1 and shape[1] == 1:
        array = array[:, None]
    if array.shape != shape:
        raise BadTokens(f"W has shape {np.shape(W)}; these tokens need {shape}")
    if not np.isfinite(array).all():
        raise BadTokens("W is not finite")
    return np.ascontiguousarray(array)


def _vector(head: Any, tokens: Tokens) -> Floats:
    if head is None:
        raise BadTokens("a proof of convergence needs the head: give head=v")
    if isinstance(head, Head):
        if type(head) is not Linear:  # a custom head only claims to be linear
            raise unsupported(f"head {head.name!r}")
        head = head.v
    v = numbers(detached(head), "head").astype(np.float64)
    return vector(v[0] if v.ndim == 2 and len(v) == 1 else v, tokens.d)


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
            "no theorem of convergence covers a custom schedule, whose steps are not known: "
            f"it covers {', '.join(SCHEDULES)}"
        )
    if "optimizer" in config.get("outside", ()) or "loss" in config.get("outside", ()):
        raise Unsupported("no theorem of convergence covers a custom optimizer or a custom loss")
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
    if isinstance(head, Head):  # a custom head only claims to be linear
        head = head.v if type(head) is Linear else None
    if head is None:
        return None
    v = np.asarray(head, dtype=np.float64)
    if v.ndim == 2:
        v = v[instance if len(v) > 1 else 0]
    return v if v.ndim == 1 else None

"""train(), outcome() and proof_of_convergence(): tokens and sentences come in by the same door.

Each hands over to the room of its data, and refuses by name what belongs to the other. Rooms are
loaded when they are entered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from attsvm.errors import BadTokens, Unsupported
from attsvm.next_token.sentences import Sentences
from attsvm.norms import Norm
from attsvm.problem.tokens import Tokens
from attsvm.training.loop import Progress, Stop
from attsvm.training.losses import Loss
from attsvm.training.models import Model
from attsvm.training.optimizers import RuleLike
from attsvm.training.path import Path
from attsvm.training.train import train as train_tokens

if TYPE_CHECKING:
    from attsvm.next_token.training.outcome import SentenceOutcome
    from attsvm.next_token.training.stages import Stages
    from attsvm.theory.convergence import ConvergenceProof
    from attsvm.theory.outcome import Outcome


def train(
    tokens: Tokens | Sequence[Tokens] | Sentences,
    *,
    model: str | Model = "weight",
    optimizer: RuleLike = "ngd",
    head: Any = None,
    loss: str | Loss = "logistic",
    lr: float = 0.1,
    steps: int = 1000,
    seed: int = 0,
    init: str | dict[str, Any] = "default",
    width: int | None = None,
    schedule: str | Callable[[int], float] = "constant",
    decay: float = 0.0,
    options: dict[str, Any] | None = None,
    embedding: Any = None,
    readout: str | None = None,
    weights: str | None = None,
    collocations: bool | None = None,
    start: Path | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> Path:
    """The Path of gradient training on (1/n) Σ ℓ(y_i h(o_i)), exact however far it goes.

    tokens: one instance or several of one size, with labels. model, optimizer, loss: a name, or an
    object of one's own (a Model; an Optimizer or a function that makes one; a Loss). head: a vector
    v, a stack (B, d), or a Head; the joint models train it, a linear one, or a ReLU network of
    `width` units with head="relu". init: "zero", "normal:STD", "uniform" (±1/√rows), or arrays by
    block name; the default is zero, and normal:0.1 for factors, where zero is a stationary point.
    width: columns of the factors (min(d, dq) without it). schedule: "constant", "sqrt" (1/√(t+1))
    or a function of the step. options: those of the optimizer, such as {"momentum": 0.9} for muon
    or {"eps": 1e-8} for adam. start: a Path to go on from, with its own model, optimizer and step
    size; of a saved run whose optimizer was an object, the object is given again. stop(step,
    params, evaluation): ends the run.

    Sentences take the models "next-token" (head: the decoder W_ov, or the path that trained it),
    "decoder" and "joint-next-token". Of these alone: embedding, as in `embedding_of`; readout:
    "softmax" of the decoder's output, or "mass", the attention on tokens that the label follows;
    weights: "empirical" or "uniform"; collocations: add the decoder's loss to the joint one's.

    >>> import attsvm
    >>> from attsvm.datasets import EXAMPLES
    >>> a = EXAMPLES["single-input-global"]()
    >>> tokens = attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"])
    >>> path = attsvm.train(tokens, model="prompt", head=a["v"], steps=2000)
    >>> path.selection
    array([[0]])
    """
    both: dict[str, Any] = {
        "model": model,
        "optimizer": optimizer,
        "head": head,
        "lr": lr,
        "steps": steps,
        "seed": seed,
        "init": init,
        "schedule": schedule,
        "decay": decay,
        "options": options,
        "start": start,
        "stop": stop,
        "progress": progress,
    }
    of_sentences = {
        "embedding": embedding,
        "readout": readout,
        "weights": weights,
        "collocations": collocations,
    }
    given = {name: value for name, value in of_sentences.items() if value is not None}
    if isinstance(tokens, Sentences):
        if loss != "logistic" or width is not None:
            name = "loss" if loss != "logistic" else "width"
            raise Unsupported(f"{name} is for tokens: models of sentences have their own")
        from attsvm.next_token.training.train import train as train_sentences

        return train_sentences(tokens, **both, **given)
    if given:
        raise Unsupported(f"{next(iter(given))} is for sentences: leave it out, or give Sentences")
    return train_tokens(tokens, **both, loss=loss, width=width)


@overload
def outcome(
    run: Any,
    tokens: Tokens,
    head: Any = None,
    *,
    instance: int = 0,
    norm: str | Norm | None = None,
    model: Model | None = None,
    optimizer: RuleLike | None = None,
    lr: float | None = None,
    loss: str | Loss = "logistic",
) -> Outcome: ...
@overload
def outcome(
    run: Path | Stages,
    tokens: Sentences,
    head: Any = None,
    *,
    norm: str | Norm | None = None,
    embedding: Any = None,
) -> SentenceOutcome: ...
def outcome(
    run: Any,
    tokens: Tokens | Sentences,
    head: Any = None,
    *,
    instance: int = 0,
    norm: str | Norm | None = None,
    model: Model | None = None,
    embedding: Any = None,
    optimizer: RuleLike | None = None,
    lr: float | None = None,
    loss: str | Loss = "logistic",
) -> Outcome | SentenceOutcome:
    """Where a run, or a W of one's own, has got to, beside the limit that theory names.

    run: a Path; both stages of sentences; or the weights themselves, from anywhere: W (d, dq), a
    prompt (d,) for tokens without queries, factors as a tuple (K, Q) or a dict of K (d, m) and
    Q (dq, m) with W = K Qᵀ, a dict that adds a trained decoder v, tensors, or stacks of these.
    tokens: what it was trained on, Tokens or Sentences. head: the fixed head, or the decoder under
    attention on sentences (its array or its path). instance: which one of a stack. norm: the norm
    to compare in; that of the predicted limit unless given; where none is known, Frobenius for a W
    of one's own, nuclear for factors. model: the model of a saved run, where it was an object of
    one's own. embedding: as it was given to `train`. optimizer, lr, loss: how a W of one's own was
    trained, where that is known; a path knows it.

    The state of tokens is "undecided" (some input has no token with nearly all the attention),
    "saturated" (every input has, but the selection is not locally optimal), "at a locally optimal
    selection" (certified; the run may still leave it), "converges" (there is a proof) or "unknown".

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
    >>> found = attsvm.outcome([-1.0, 9.0], tokens, [0.2, 0.7], optimizer="gd")
    >>> found.state, found.selection, round(found.margin_share, 3)
    ('at a locally optimal selection', array([0]), 0.994)
    >>> data = attsvm.Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
    >>> found = attsvm.outcome(attsvm.two_stages(data, steps=(200, 300)), data)
    >>> found.status, found.top_optimal
    ('optimal', 1.0)
    """
    if isinstance(tokens, Sentences):
        of_tokens: dict[str, Any] = {
            "instance": instance or None,
            "model": model,
            "optimizer": optimizer,
            "lr": lr,
            "loss": None if loss == "logistic" else loss,
        }
        for name, given in of_tokens.items():
            if given is not None:
                raise Unsupported(f"{name} is for runs on tokens: leave it out for sentences")
        from attsvm.next_token.training.outcome import sentence_outcome
        from attsvm.next_token.training.runs import SentenceRun
        from attsvm.next_token.training.stages import Stages as BothStages

        if not isinstance(run, Path | BothStages):
            raise BadTokens("of sentences an outcome is of a Path, or of both stages: give these")
        read = SentenceRun.of(run, tokens, head, "orthonormal" if embedding is None else embedding)
        return sentence_outcome(read, norm=norm)
    if embedding is not None:
        raise Unsupported("embedding is for runs on sentences: leave it out for tokens")
    from attsvm.theory import outcome as token_outcomes

    if not isinstance(run, Path):
        from attsvm.next_token.training.stages import Stages as BothStages

        if isinstance(run, BothStages):
            raise BadTokens("two stages are compared with the Sentences they were trained on")
    return token_outcomes.outcome(
        run,
        tokens,
        head,
        instance=instance,
        norm=norm,
        model=model,
        optimizer=optimizer,
        lr=lr,
        loss=loss,
    )


def proof_of_convergence(
    tokens: Tokens | Sentences,
    W: Any,
    *,
    head: Any = None,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
    embedding: Any = None,
    readout: str | None = None,
    weights: str | None = None,
) -> ConvergenceProof:
    """A proof that training from W never changes its selection and tends to the max-margin
    direction, or what blocks it.

    W: (d, dq), or a prompt (d,); of sentences W_kq (d, d). head: the linear head v, or the frozen
    decoder W_ov. optimizer: "ngd" (any steps along the gradient of length at most lr whose lengths
    add up to infinity), "gd", "nmirror:P" (likewise, in the dual norm) or "mirror:P". The proof is
    of the exact iteration; `float_steps` says how far it covers one in floats. Every inequality is
    checked in interval arithmetic. Of sentences alone: embedding, readout, weights, as in `train`.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> attsvm.proof_of_convergence(tokens, [0.0, 30.0], head=[0.2, 0.7], lr=0.1).proved
    True
    """
    of_sentences = {"embedding": embedding, "readout": readout, "weights": weights}
    given = {name: value for name, value in of_sentences.items() if value is not None}
    if isinstance(tokens, Sentences):
        if loss != "logistic":
            raise Unsupported("loss is for tokens: models of sentences have their own")
        from attsvm.next_token.training import proofs

        return proofs.proof_of_convergence(
            tokens, W, head=head, optimizer=optimizer, lr=lr, **given
        )
    if given:
        raise Unsupported(f"{next(iter(given))} is for sentences: leave it out, or give Sentences")
    from attsvm.theory.convergence import prove as front

    return front.proof_of_convergence(tokens, W, head=head, optimizer=optimizer, lr=lr, loss=loss)

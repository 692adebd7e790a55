"""train(), outcome() and proof_of_convergence(), each for Tokens and for Sentences.

One check refuses the options of the other kind of data. What a call does not need is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from attsvm._utils.progress import Progress
from attsvm.errors import Unsupported
from attsvm.next_token.sentences import Sentences
from attsvm.norms import Norm
from attsvm.problem.tokens import Tokens
from attsvm.training.loop import Stop
from attsvm.training.losses import Loss
from attsvm.training.models import Model
from attsvm.training.optimizers import RuleLike
from attsvm.training.path import Path
from attsvm.training.train import train_tokens

if TYPE_CHECKING:
    from attsvm.next_token.training.outcome import SentenceOutcome
    from attsvm.next_token.training.train import SentenceRun
    from attsvm.theory.convergence import ConvergenceProof
    from attsvm.theory.outcome import Outcome


def train(
    tokens: Tokens | Sequence[Tokens] | Sentences,
    *,
    model: str | Model = "weight",
    optimizer: RuleLike = "ngd",
    head: Any = None,
    loss: str | Loss = "logistic",
    lr: float | None = None,
    steps: int = 1000,
    seed: int = 0,
    init: str | dict[str, Any] = "default",
    width: int | None = None,
    heads: int | None = None,
    threads: int | None = None,
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
    """Train attention by gradient descent on (1/n) Σ ℓ(y_i h(o_i)), exactly at any saturation.

    Parameters
    ----------
    tokens : one instance with labels, several of one size, or Sentences.
    model : "weight", "prompt", "factored", "joint-prompt", "joint-weight", "multi-head",
        "split-heads", "qk-norm", or a custom Model; for Sentences "next-token", "decoder" or
        "joint-next-token".
    optimizer : a name, a custom Optimizer, or a function that makes one.
    head : the prediction head: a vector v, a stack (B, d), or a Head. The joint models train it: a
        linear one, or with head="relu" a ReLU network of `width` units. Several attention heads
        are read by v each, by the rows of (H, d), or of (B, H, d). For "next-token" the decoder
        W_ov, or the path that trained it.
    loss : a name or a custom Loss. Tokens only.
    lr, steps, seed : the step size (default: the optimizer's own, or 0.1), the number of steps, the
        seed of the start.
    init : "zero", "normal:STD", "uniform" (±1/√rows), or arrays by block name; default: zero, and
        normal:0.1 for factors, where zero is a stationary point, for several heads, which would be
        one, and for qk-norm.
    width : columns of the factors, default: min(d, dq). Tokens only.
    heads : attention heads of "multi-head" and "split-heads", default: 2. Tokens only.
    threads : cores that share a stack, default: all, or NUMBA_NUM_THREADS. The path is the same to
        the bit. Tokens only.
    schedule : "constant", "sqrt" (1/√(t+1)) or a function of the step.
    decay : decoupled weight decay.
    options : those of the optimizer, such as {"momentum": 0.9} for muon or {"eps": 1e-8} for adam.
    embedding : as in `embedding_of`. Sentences only.
    readout : "softmax" of the decoder's output, or "mass", the attention on tokens that the label
        follows. Sentences only.
    weights : "empirical" or "uniform". Sentences only.
    collocations : add the decoder's loss to the joint one's. Sentences only.
    start : a Path to continue, with its own model, optimizer and step size; custom objects of a
        saved run are given again.
    stop : stop(step, params, evaluation) returns True to end the run.
    progress : called with the share of the steps done, 0 to 1.

    Returns
    -------
    Path
        The recorded run.

    Raises
    ------
    BadTokens, Unsupported
        If the data or an option does not fit; the message names it.

    Examples
    --------
    >>> import attsvm
    >>> from attsvm.datasets import EXAMPLES
    >>> a = EXAMPLES["single-input-global"]()
    >>> tokens = attsvm.Tokens(a["X"], keys=a["keys"], labels=a["y"])
    >>> path = attsvm.train(tokens, model="prompt", head=a["v"], steps=2000)
    >>> path.selection
    array([[0]])
    """
    own = _options_for(
        tokens,
        {"loss": loss, "width": width, "heads": heads, "threads": threads},
        {
            "embedding": embedding,
            "readout": readout,
            "weights": weights,
            "collocations": collocations,
        },
    )
    train_on: Callable[..., Path] = train_tokens
    if isinstance(tokens, Sentences):
        from attsvm.next_token.training.train import train as train_on
    return train_on(
        tokens,
        model=model,
        optimizer=optimizer,
        head=head,
        lr=lr,
        steps=steps,
        seed=seed,
        init=init,
        schedule=schedule,
        decay=decay,
        options=options,
        start=start,
        stop=stop,
        progress=progress,
        **own,
    )


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
    run: Path | SentenceRun,
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
    """Compare a run, or given weights, with the limit that theory predicts.

    Parameters
    ----------
    run : a Path; the run that `two_stages` gives; or weights from anywhere: W (d, dq), a prompt
        (d,) for tokens without queries, factors as a tuple (K, Q) or a dict of K (d, m) and
        Q (dq, m) with W = K Qᵀ, a dict that adds a trained decoder v, tensors, or stacks of these.
    tokens : the Tokens or Sentences that it was trained on.
    head : the fixed prediction head, or the decoder under attention on sentences (its array or its
        path).
    instance : which one of a stack. Tokens only.
    norm : the norm to compare in; default: that of the predicted limit and, where none is known,
        Frobenius for given weights, nuclear for factors.
    model : the model of a saved run, where it was a custom object. Tokens only.
    embedding : as given to `train`. Sentences only.
    optimizer, lr, loss : how given weights were trained, where that is known. Tokens only.

    Returns
    -------
    Outcome or SentenceOutcome
        Of the models multi-head, split-heads and qk-norm a LayerOutcome, which has an Outcome for
        each head, or input.

    Notes
    -----
    The state of tokens is "undecided" (some input has no token with nearly all the attention),
    "saturated" (every input has, but the selection is not locally optimal), "at a locally optimal
    selection" (certified; the run may still leave it), "converges" (there is a proof) or "unknown".

    Examples
    --------
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
    own = _options_for(
        tokens,
        {"instance": instance, "model": model, "optimizer": optimizer, "lr": lr, "loss": loss},
        {"embedding": embedding},
    )
    if isinstance(tokens, Sentences):
        from attsvm.next_token.training.outcome import sentence_outcome
        from attsvm.next_token.training.train import SentenceRun

        read = SentenceRun.of(run, tokens, head, own.get("embedding", "orthonormal"))
        return sentence_outcome(read, norm=norm)
    from attsvm.theory import outcome as token_outcomes

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
    """Prove that training from W keeps its selection and tends to the max-margin direction.

    The proof is of the exact iteration; `float_steps` says how far it covers one in floats. Every
    inequality is checked in interval arithmetic.

    Parameters
    ----------
    tokens : Tokens or Sentences.
    W : (d, dq), or a prompt (d,); for Sentences W_kq (d, d).
    head : the linear prediction head v, or the frozen decoder W_ov.
    optimizer : "ngd" (any steps along the gradient of length at most lr whose lengths add up to
        infinity), "gd", "nmirror:P" (likewise, in the dual norm) or "mirror:P".
    lr : the step size.
    loss : a name or a custom Loss. Tokens only.
    embedding, readout, weights : as in `train`. Sentences only.

    Returns
    -------
    ConvergenceProof
        The proof, or what blocks it.

    Examples
    --------
    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> attsvm.proof_of_convergence(tokens, [0.0, 30.0], head=[0.2, 0.7], lr=0.1).proved
    True
    """
    own = _options_for(
        tokens,
        {"loss": loss},
        {"embedding": embedding, "readout": readout, "weights": weights},
    )
    if isinstance(tokens, Sentences):
        from attsvm.next_token.training import proofs

        return proofs.proof_of_convergence(tokens, W, head=head, optimizer=optimizer, lr=lr, **own)
    from attsvm.theory.convergence import prover

    return prover.proof_of_convergence(tokens, W, head=head, optimizer=optimizer, lr=lr, **own)


def _options_for(
    data: Any, of_tokens: dict[str, Any], of_sentences: dict[str, Any]
) -> dict[str, Any]:
    """The options of this kind of data that differ from their defaults.

    Raises Unsupported where an option of the other kind is given.
    """
    defaults = {"loss": "logistic", "instance": 0}

    def given(options: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in options.items()
            if not (isinstance(value, str | int | None) and value == defaults.get(name))
        }

    own, other, kind = given(of_tokens), given(of_sentences), "Sentences"
    if isinstance(data, Sentences):
        own, other, kind = other, own, "Tokens"
    for name in other:
        raise Unsupported(f"{name} is an option for {kind} only: leave it out")
    return own

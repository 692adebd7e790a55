"""proof_of_convergence(): from a W and a way of training to a proof, or to what blocks it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats, detached, numbers, rectangular, vector
from attsvm._utils.expected import listed as instances
from attsvm._utils.expected import shown
from attsvm.errors import BadTokens, Unsupported
from attsvm.problem.tokens import Tokens
from attsvm.theory.convergence.power_prover import prover_for
from attsvm.theory.convergence.proof import ConvergenceProof, unsupported
from attsvm.theory.convergence.prover import Prover
from attsvm.training.heads.head import Head
from attsvm.training.heads.linear import Linear
from attsvm.training.losses import Loss, loss_of
from attsvm.training.optimizers import RuleLike, optimizer_of


def proof_of_convergence(
    tokens: Tokens,
    W: Any,
    *,
    head: Any,
    optimizer: RuleLike = "ngd",
    lr: float = 0.1,
    loss: str | Loss = "logistic",
) -> ConvergenceProof:
    """A proof that training from W never changes its selection and tends to the max-margin
    direction, or what blocks it.

    W: (d, dq), or a prompt (d,). head: the linear head v. optimizer: "ngd" (any steps along the
    gradient of length at most lr whose lengths add up to infinity), "gd", "nmirror:P" (likewise, in
    the dual norm) or "mirror:P". The proof is of the exact iteration; `float_steps` says how far it
    covers one in floats. Every inequality is checked in interval arithmetic.

    >>> import numpy as np, attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> attsvm.proof_of_convergence(tokens, [0.0, 30.0], head=[0.2, 0.7], lr=0.1).proved
    True
    """
    return prover(tokens, head=head, optimizer=optimizer, lr=lr, loss=loss).prove(
        checked_W(tokens, W)
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
    """The proof of each of B instances, as in `proof_of_convergence`.

    W: (B, d, dq), or prompts (B, d). head: one for all (d,), or one each (B, d).

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


def checked_W(tokens: Tokens, W: Any) -> Floats:
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
        if type(head) is not Linear:  # one's own is linear by its own word alone
            raise unsupported(f"head {head.name!r}")
        head = head.v
    v = numbers(detached(head), "head").astype(np.float64)
    return vector(v[0] if v.ndim == 2 and len(v) == 1 else v, tokens.d)

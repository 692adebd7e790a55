"""What is recorded of a call: logits, entropy and gaps of sampled queries, and norms of W_QK."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attsvm.torch.calls import Call, sample


class PerQuery(NamedTuple):
    """Numbers of sampled queries, each (H, number of queries); nan where fewer than two keys are.

    largest: the largest scale · q·k, without what a mask adds. entropy: of attention, in nats. gap:
    between the two largest logits. odds: log(p/(1 − p)) of the largest attention p.
    """

    largest: Tensor
    entropy: Tensor
    gap: Tensor
    odds: Tensor


def per_query(call: Call, most: int, turn: int) -> PerQuery:
    """The numbers of at most `most` queries of a call."""
    found = call.q if call.q is not None else call.inputs[0] if call.inputs else None
    device = None if found is None else found.device
    raw, logits = call.logits(*sample(call.size, most, turn, device))
    if logits.shape[-1] < 2:
        nothing = torch.full(logits.shape[:-1], torch.nan, dtype=logits.dtype, device=device)
        return PerQuery(*(_by_head(nothing) for _ in range(4)))
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
    return PerQuery(*(_by_head(x) for x in numbers))


def _by_head(x: Tensor) -> Tensor:
    """(nb, H, m) as (H, nb·m)."""
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def norms(call: Call) -> tuple[Tensor, Tensor] | None:
    """(Frobenius, spectral) norms of W = scale · W_Kᵀ [W_Q b_q] by head; None where not known.

    With A = [W_Q b_q] and K = W_K (dh rows each), ‖Kᵀ A‖_F² = ⟨K Kᵀ, A Aᵀ⟩, and the spectral norm
    is the root of the largest eigenvalue of R (A Aᵀ) R with R the root of K Kᵀ: matrices of head
    width, never of model width.
    """
    if call.single is not None:
        W = call.single.detach().double()
        W = W[:, None] if W.ndim == 1 else W
        return torch.linalg.vector_norm(W)[None], torch.linalg.matrix_norm(W, 2)[None]
    found = call.weights()
    if found is None:
        return None
    A, K = found
    if A.shape[1] > min(A.shape[2], K.shape[2]):  # heads wider than the model: W itself is smaller
        W = K.transpose(1, 2) @ A
        size, top = torch.linalg.matrix_norm(W), torch.linalg.matrix_norm(W, 2)
        return size * abs(call.scale), top * abs(call.scale)
    GA, GK = A @ A.transpose(1, 2), K @ K.transpose(1, 2)
    size = (GA * GK).sum(dim=(1, 2)).clamp(min=0).sqrt()
    value, vector = torch.linalg.eigh(GK)
    R = vector * value.clamp(min=0).sqrt()[:, None, :]
    top = torch.linalg.eigvalsh(R.transpose(1, 2) @ GA @ R)[:, -1].clamp(min=0).sqrt()
    return size * abs(call.scale), top * abs(call.scale)

"""Small models that attend, and their attention by plain formulas from weights and inputs."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attsvm.torch import Monitor

ALL = 10**6  # queries: every one


class Functional(nn.Module):
    """Attention by scaled_dot_product_attention, as libraries write it.

    kind: "plain", "grouped" (fewer heads of keys), "repeated" (keys copied to all heads), "packed",
    "rotated" (a rotation after the projection), "normed" (queries and keys at length one).
    """

    def __init__(self, d=12, heads=4, key_heads=None, kind="plain", bias=True, **options):
        super().__init__()
        self.heads, self.key_heads, self.kind = heads, key_heads or heads, kind
        self.width, self.options = d // heads, options
        self.seen = {}
        if kind == "packed":
            self.c_attn = nn.Linear(d, 3 * d, bias=bias)
        else:
            self.q_proj = nn.Linear(d, d, bias=bias)
            self.k_proj = nn.Linear(d, self.key_heads * self.width, bias=bias)
            self.v_proj = nn.Linear(d, self.key_heads * self.width, bias=bias)
        self.out = nn.Linear(d, d)

    def _split(self, x):
        return x.view(*x.shape[:2], -1, self.width).transpose(1, 2)

    def forward(self, x, mask=None):
        if self.kind == "packed":
            q, k, v = map(self._split, self.c_attn(x).chunk(3, dim=-1))
        else:
            q, k, v = (self._split(m(x)) for m in (self.q_proj, self.k_proj, self.v_proj))
        if self.kind == "rotated":
            turn = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
            q, k = (self._turned(y, turn) for y in (q, k))
        if self.kind == "normed":
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        if self.kind == "repeated":
            k, v = (y.repeat_interleave(self.heads // self.key_heads, dim=1) for y in (k, v))
        self.seen = {"q": q.detach(), "k": k.detach()}
        more = {"enable_gqa": True} if self.kind == "grouped" else {}
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.options, **more)
        return self.out(o.transpose(1, 2).reshape(x.shape))

    @staticmethod
    def _turned(y, turn):
        a, b = y[..., 0:1], y[..., 1:2]
        c, s = turn.cos(), turn.sin()
        return torch.cat([c * a - s * b, s * a + c * b, y[..., 2:]], dim=-1)


class ByHand(nn.Module):
    """Attention that no library function does: nothing can be hooked."""

    def __init__(self, d=6):
        super().__init__()
        self.q, self.k = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.last = None

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        self.last = q, k, x
        return torch.softmax(q @ k.transpose(1, 2) / x.shape[-1] ** 0.5, dim=-1) @ x


def arrays(*tensors):
    """Tensors as float64 arrays."""
    return [None if t is None else t.detach().double().numpy() for t in tensors]


def logits_of(x, y, W_q, W_k, b_q, b_k, heads, scale=None):
    """scale · q·k for all sequences, heads and places (B, H, L, S), one sequence at a time."""
    x, y, W_q, W_k, b_q, b_k = arrays(x, y, W_q, W_k, b_q, b_k)
    width = len(W_q) // heads
    scale = width**-0.5 if scale is None else scale
    group = heads // (len(W_k) // width)
    out = np.empty((len(x), heads, x.shape[1], y.shape[1]))
    for b in range(len(x)):
        q = x[b] @ W_q.T + (0 if b_q is None else b_q)
        k = y[b] @ W_k.T + (0 if b_k is None else b_k)
        for h in range(heads):
            g = h // group
            own = slice(h * width, (h + 1) * width), slice(g * width, (g + 1) * width)
            out[b, h] = scale * q[:, own[0]] @ k[:, own[1]].T
    return out


def expected(raw, added, h, level=0.99):
    """The numbers of a row by their definitions: raw, added (B, H, L, S); −inf where no key is."""
    largest, entropy, gap, odds = [], [], [], []
    for b in range(len(raw)):
        for l in range(raw.shape[2]):
            shift = added[b, h, l]
            here = np.isfinite(shift)
            if here.sum() < 2:
                continue
            s = (raw[b, h, l] + np.where(here, shift, 0.0))[here]
            p = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
            first, second = np.sort(s)[::-1][:2]
            largest.append(raw[b, h, l][here].max())
            entropy.append(-(p * np.log(p)).sum())
            gap.append(first - second)
            odds.append(np.log(p.max() / np.delete(p, p.argmax()).sum()))
    found = {
        "largest": max(largest),
        "entropy": np.mean(entropy),
        "gap": np.median(gap),
        "odds": np.median(odds),
        "saturated": np.mean(1 / (1 + np.exp(-np.array(odds))) >= level),
        "queries": len(odds),
    }
    return found


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def recorded(model, *args, **kwargs):
    """The rows of one forward with gradients, over every query."""
    with Monitor(model, queries=ALL) as monitor:
        model(*args, **kwargs)
        monitor.step()
    return monitor.rows


def check(rows, raw, added):
    """Raises unless the rows are what the logits (B, H, L, S) say."""
    assert len(rows) == raw.shape[1]
    for row in rows:
        for name, value in expected(raw, added, row.head).items():
            assert getattr(row, name) == pytest.approx(value, rel=2e-5, abs=2e-5), name


def functional_logits(model, x):
    """The logits of a Functional."""
    if model.kind == "packed":
        (W_q, W_k, _), (b_q, b_k, _) = model.c_attn.weight.chunk(3), model.c_attn.bias.chunk(3)
    else:
        W_q, W_k, b_q, b_k = (
            getattr(m, part) for part in ("weight", "bias") for m in (model.q_proj, model.k_proj)
        )
    return logits_of(x, x, W_q, W_k, b_q, b_k, model.heads, model.options.get("scale"))

"""Ceilings: never exceeded, also where training does all it can to exceed them, and near it."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from attsvm.torch import Attention, MirrorDescent, Monitor, NormalizedGD, SteepestDescent
from attsvm.torch.ceilings import Radii, WeightPart, _adam
from tests.torch.attending import Functional, logits_of

pytestmark = pytest.mark.filterwarnings("ignore::attsvm.torch.SaturationWarning")
ALL = 10**6

RULES = {
    "ngd": lambda x, **o: NormalizedGD(x, lr=0.1, **o),
    "ngd momentum": lambda x, **o: NormalizedGD(x, lr=0.1, momentum=0.9, **o),
    "max": lambda x, **o: SteepestDescent(x, lr=0.03, norm="max", **o),
    "spectral": lambda x, **o: SteepestDescent(x, lr=0.1, norm="spectral", **o),
    "l1.5": lambda x, **o: SteepestDescent(x, lr=0.1, norm="l1.5", **o),
    "l3": lambda x, **o: SteepestDescent(x, lr=0.1, norm="l3", **o),
    "mirror 1.5": lambda x, **o: MirrorDescent(x, lr=0.1, p=1.5, normalized=True, **o),
    "mirror 2": lambda x, **o: MirrorDescent(x, lr=0.1, p=2, normalized=True, **o),
    "mirror 3": lambda x, **o: MirrorDescent(x, lr=0.1, p=3, normalized=True, **o),
    "adamw": lambda x, **o: torch.optim.AdamW(x, lr=0.03, **({"weight_decay": 0.0} | o)),
    "adam": lambda x, **o: torch.optim.Adam(x, lr=0.03, **o),
}


def multihead(bias=True, **flags):
    torch.manual_seed(0)
    return nn.MultiheadAttention(6, 2, bias=bias, batch_first=True, **flags)


def largest_logits(model, x):
    """The largest |logit| of each head, by a plain formula, keys of the layer's own included."""
    H = 2 if isinstance(model, nn.MultiheadAttention) else model.heads
    if isinstance(model, nn.MultiheadAttention):
        W_q, W_k, _ = model.in_proj_weight.chunk(3)
        b_q, b_k, _ = model.in_proj_bias.chunk(3)
    else:
        W_q, W_k = model.q_proj.weight, model.k_proj.weight
        b_q, b_k = model.q_proj.bias, model.k_proj.bias
    found = np.abs(logits_of(x, x, W_q, W_k, b_q, b_k, H)).max(axis=(0, 2, 3))
    if getattr(model, "bias_k", None) is not None:
        q = (x @ W_q.T + b_q).detach().double().reshape(*x.shape[:2], H, -1)
        own = (q * model.bias_k.detach().double().reshape(H, -1)).sum(-1) / 3**0.5
        found = np.maximum(found, own.abs().amax(dim=(0, 1)).numpy())
    return found


CASES = [(rule, "multihead") for rule in RULES]
CASES += [(rule, kind) for rule in ("ngd", "max", "l3") for kind in ("bias_kv", "grouped", "plain")]


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(("rule", "kind"), CASES)
def test_never_exceeded_where_logits_are_driven_up(rule, kind, decay):
    """Training on −Σ logits² (all logits grow as fast as the rule allows), step by step."""
    if kind in ("multihead", "bias_kv"):
        model = multihead(add_bias_kv=kind == "bias_kv")
    else:
        torch.manual_seed(0)
        grouped = kind == "grouped"
        model = Functional(
            8, 4, key_heads=2 if grouped else None, kind="grouped" if grouped else "plain"
        )
    optimizer = RULES[rule](model.parameters(), weight_decay=decay)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.7)
    width = 6 if kind in ("multihead", "bias_kv") else 8
    x = torch.randn(2, 4, width, generator=torch.Generator().manual_seed(1))
    ever = np.inf
    with Monitor(model, optimizer, queries=ALL, every=1) as monitor:
        for step in range(16):
            out = model(x, x, x) if width == 6 else model(x)
            truth = largest_logits(model, x)
            if width == 6:
                W_q, W_k, _ = model.in_proj_weight.chunk(3)
                b_q, b_k, _ = model.in_proj_bias.chunk(3)
                q, k = x @ W_q.T + b_q, x @ W_k.T + b_k
            else:
                q, k = model.q_proj(x), model.k_proj(x)
                q = q[..., : k.shape[-1]]
            loss = -((q @ k.transpose(1, 2)) ** 2).sum()
            if kind == "bias_kv":
                loss = loss - (q * model.bias_k).sum() ** 2
            optimizer.zero_grad()
            (loss + 0 * (out[0] if width == 6 else out).sum()).backward()
            optimizer.step()
            schedule.step()
            monitor.step()
            rows = monitor.rows[-len(truth) :]
            assert [row.step for row in rows] == [step] * len(truth)
            for row in rows:
                assert row.largest <= truth[row.head] * (1 + 1e-5)
                assert truth[row.head] <= row.ceiling <= row.limit * (1 + 1e-9)
            top = max(row.limit for row in rows)
            if decay and rule not in ("adam", "mirror 1.5", "mirror 3"):
                assert top <= ever * (1 + 1e-2)  # what will never be exceeded does not grow
                ever = top
            elif not decay or rule == "adam":
                assert top == math.inf


@pytest.mark.parametrize(
    ("rule", "decay"), [("ngd", 0.0), ("ngd", 2.0), ("max", 2.0), ("mirror 1.5", 2.0)]
)
def test_attained_by_one_w_on_one_pair(rule, decay):
    """One key and one query, a logit that is driven up: the bound is equality but for rounding."""
    torch.manual_seed(0)
    model = Attention([1.0, 0.0], shape=(2, 2))
    key = torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)[None]
    z = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    optimizer = RULES[rule](model.parameters(), weight_decay=decay)
    with Monitor(model, optimizer, every=1) as monitor:
        for _ in range(150):
            model(key, z)
            optimizer.zero_grad()
            (-(key[0, 0] @ model.W @ z[0])).backward()
            optimizer.step()
            monitor.step()
    last = monitor.rows[-1]
    assert last.largest <= last.ceiling <= last.limit
    # |y·W x| ≤ ‖W‖_F |y||x| loses nothing here; nor does max: all entries are equal. For ℓ1.5 the
    # step to the Frobenius norm loses n^(1/1.5 − 1/2) of n = 4 equal entries.
    lost = 4 ** (1 / 1.5 - 1 / 2) if rule == "mirror 1.5" else 1.0
    assert last.largest == pytest.approx(last.ceiling / lost, rel=1e-6)
    if decay:
        # (1 − ηλ)^150 of the way is left: at most 1e-4.
        assert last.largest == pytest.approx(last.limit / lost, rel=1e-3)


NORMS = {
    "max": np.inf,
    "adamw": np.inf,
    "adam": np.inf,
    "l1.5": 1.5,
    "l3": 3,
    "spectral": "spectral",
}
NORMS |= {"mirror 1.5": 1.5, "mirror 3": 3}


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("rule", RULES)
def test_norms_of_weights_stay_within_their_radius_and_the_first_step_reaches_it(rule, decay):
    """Gradients that always push the weights out along themselves, in the norm of the rule."""
    p = NORMS.get(rule, 2)
    W = np.ones((2, 1, 6)) if p == np.inf else np.full((2, 1, 6), 0.5)
    x = nn.Parameter(torch.as_tensor(W.reshape(2, 6), dtype=torch.float64))
    if p == "spectral":
        x = nn.Parameter(torch.eye(2, 6, dtype=torch.float64))
    optimizer = RULES[rule]([x], weight_decay=0.0 if rule == "adam" else decay)
    radii = Radii(optimizer)

    def size():
        M = x.detach().numpy()
        return np.linalg.norm(M, 2) if p == "spectral" else np.linalg.norm(M.ravel(), p)

    def bound():
        return radii.of(WeightPart(x, "whole", x.reshape(1, 2, 6)))

    assert bound().now == pytest.approx(size(), rel=1e-12)
    for step in range(30):
        x.grad = -x.detach() if p == "spectral" else -torch.ones_like(x)
        optimizer.step()
        assert size() <= bound().now[0] <= bound().ever[0]
        # Adam's first step, and every one of the other rules, is as long as it may be. (Of Adam's
        # 2⁻²³/(1 − β₂) = 1.2e-4 of a step of 0.03 is left for roundings.)
        if step == 0 or "adam" not in rule:
            assert size() == pytest.approx(bound().now[0], rel=5e-6 if "adam" in rule else 1e-6)
    radii.close()


def test_adams_largest_update_is_a_bound_and_near():
    """The worst gradients for step t are those of equality in Cauchy and Schwarz."""
    b1, b2 = 0.9, 0.999
    for t in (1, 2, 10, 100):
        x = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        optimizer = torch.optim.Adam([x], lr=1.0, betas=(b1, b2), eps=0.0)
        moves = []
        for s in range(1, t + 1):
            x.grad = torch.tensor([(b1 / b2) ** (t - s)], dtype=torch.float64)
            before = x.item()
            optimizer.step()
            moves.append(abs(x.item() - before))
        assert moves[-1] == pytest.approx(_adam(optimizer, t), rel=1e-3)
        assert moves[-1] <= _adam(optimizer, t)


def test_a_resumed_adam_is_bounded_by_all_its_steps():
    x = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([x], lr=0.1)
    for _ in range(50):
        x.grad = torch.ones(3)
        optimizer.step()
    found = Radii(optimizer)
    assert found._largest == max(_adam(optimizer, t) for t in range(1, 51))


@pytest.mark.parametrize(
    "make", [lambda x: torch.optim.SGD(x, lr=0.1), lambda x: MirrorDescent(x, p=1.5)]
)
def test_steps_without_a_bound_have_no_ceiling(make):
    model = multihead()
    with Monitor(model, make(model.parameters())) as monitor:
        model(*[torch.randn(1, 3, 6)] * 3)
        monitor.step()
    assert all(math.isnan(row.ceiling) and math.isnan(row.limit) for row in monitor.rows)


def test_a_frozen_layer_has_its_own_norm_for_a_ceiling():
    model = nn.ModuleList([multihead(), nn.Linear(6, 6)])
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    x = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(0))
    with Monitor(model, optimizer, queries=ALL) as monitor:
        model[0](x, x, x)
        monitor.step()
    truth = largest_logits(model[0], x)
    for row in monitor.rows:
        assert truth[row.head] <= row.ceiling == row.limit < math.inf


def test_bfloat16_weights_stay_below():
    torch.manual_seed(0)
    model = Functional(8, 2, bias=False).to(torch.bfloat16)
    optimizer = NormalizedGD(model.parameters(), lr=0.1, weight_decay=0.2)
    x = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    with Monitor(model, optimizer, queries=ALL, every=1) as monitor:
        for _ in range(40):
            out = model(x)
            optimizer.zero_grad()
            q, k = model.q_proj(x), model.k_proj(x)
            (0 * out.sum() - (q @ k.transpose(1, 2)).float().pow(2).sum()).backward()
            optimizer.step()
            monitor.step()
    assert all(row.largest <= row.ceiling < math.inf for row in monitor.rows)

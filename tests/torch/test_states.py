"""The optimizers' states under attack: exponents, precisions, odd parameters, other states."""

import copy
import io
from fractions import Fraction

import numpy as np
import pytest
import torch

import attsvm.torch as at
from attsvm.errors import Unsupported
from attsvm.torch import optimizers
from tests.torch.small import made, trained
from tests.torch.test_optimizers import MAKERS, every

# Powers by multiplications and powers by logarithms round in different ways.
EXPONENTS = (1 + 1 / 64, 1.05, 1.1, 1.3, 1.7, 2.5, 3.0, 11.0)
WITH_MOMENTUM = {"momentum": 0.9}


def saved(*things):
    """What comes back from a file."""
    file = io.BytesIO()
    torch.save(things, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("p", EXPONENTS)
def test_dual_variables_are_known_again_at_every_size(p):
    """A loaded state keeps every u whose weight is what a step left, tiny and huge ones too."""
    sizes = 10.0 ** np.random.default_rng(0).uniform(-44, 3, 20_000)
    x = torch.nn.Parameter(torch.from_numpy(sizes.astype(np.float32)))
    optimizer = at.MirrorDescent([x], lr=1e-8, p=p)
    x.grad = torch.ones_like(x)
    optimizer.step()
    u, w = optimizer.state[x]["dual"].clone(), x.detach().clone()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    x.grad = torch.zeros_like(x)
    optimizer.step()
    assert torch.equal(optimizer.state[x]["dual"], u) and torch.equal(x, w)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_steps_together_are_the_steps(p, dtype):
    ends = []
    for foreach in (None, True):
        model = made(width=200).to(dtype)
        trained(model, at.MirrorDescent(model.parameters(), lr=0.003, p=p, foreach=foreach), 0, 5)
        ends.append(model.parameters())
    assert all(map(torch.equal, *ends))


@pytest.mark.parametrize("p", [1 + 1 / 64, 1.02, 1.1, 1.2, 1.3, 1.5, 3.0, 11.0])
@pytest.mark.parametrize("size", [0, 1, 3, 1001])
def test_the_compiled_loop_is_the_step_by_operations(p, size):
    draw = torch.Generator().manual_seed(0)
    u, g = torch.randn(size, generator=draw), torch.randn(size, generator=draw)
    u[::17], g[::34] = 0.0, 0.0
    x, (y, v) = torch.empty_like(u), (torch.empty(size).double(), u.double())
    optimizers._by_operations([y], [v], [g], lr=0.01, shrink=0.999, e=1 / (p - 1))
    assert optimizers._looped(x, u, g, lr=0.01, shrink=0.999, p=p)
    assert torch.allclose(u.double(), v, rtol=1e-6, atol=1e-8)
    exact = optimizers._powers([u.double()], 1 / (p - 1))[0].float()
    assert torch.allclose(x, exact, rtol=4e-6, atol=1e-37)  # 63 roundings at most


@pytest.mark.parametrize("p", [1.3, 1.7, 2.5, 6.0])
def test_powers_over_the_range_of_floats(p):
    u = torch.exp2(torch.linspace(-125.5, 126.5, 20011))
    w = optimizers._left_by(u, torch.empty_like(u), p).double()
    exact = u.double() ** (1 / (p - 1))
    inside = (exact > 1.2e-38) & (exact < 3.3e38)
    assert (w[inside] / exact[inside] - 1).abs().max() < 6e-7
    assert (w[exact > 3.5e38] == torch.inf).all() and (w[exact < 6e-46] == 0).all()


@pytest.mark.parametrize("p", [1.1, 1.3, 3.0, 11.0])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_compiled_loops_do_not_hide_what_is_not_finite(p, bad):
    x = torch.nn.Parameter(torch.ones(40))
    x.grad = torch.ones(40)
    x.grad[7] = bad
    at.MirrorDescent([x], lr=0.1, p=p).step()
    assert (~torch.isfinite(x)).nonzero().tolist() == [[7]]


@pytest.mark.parametrize("k", [2, 3, 9, 10, 64])
def test_whole_powers_against_fractions(k):
    u = torch.randn(60, generator=torch.Generator().manual_seed(0))
    w = optimizers._left_by(u, torch.empty_like(u), 1 + 1 / k)
    for a, b in zip(u.tolist(), w.tolist(), strict=True):
        exact = Fraction(a) * abs(Fraction(a)) ** (k - 1)
        assert abs(Fraction(b) - exact) <= Fraction(k, 2**23) * abs(exact) + Fraction(1, 10**37)


@pytest.mark.parametrize("p", EXPONENTS)
def test_a_resumed_run_of_every_exponent(p):
    one = made(width=200)
    first = at.MirrorDescent(one.parameters(), lr=0.003, p=p)
    trained(one, first, 0, 20)
    weights, state = saved(one.state_dict(), first.state_dict())
    other = made(seed=1, width=200)
    second = at.MirrorDescent(other.parameters(), lr=0.003, p=p)
    second.load_state_dict(state)
    other.load_state_dict(weights)
    for model, optimizer in ((one, first), (other, second)):
        trained(model, optimizer, 20, 40)
    assert all(map(torch.equal, one.parameters(), other.parameters()))


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_averages_are_kept_in_single_precision_or_better(name, dtype):
    one = made().to(dtype)
    first = MAKERS[name](one.parameters(), **WITH_MOMENTUM)
    trained(one, first, 0, 5)
    weights, state = saved(one.state_dict(), first.state_dict())
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    other = made(seed=1).to(dtype)
    second = MAKERS[name](other.parameters(), **WITH_MOMENTUM)
    other.load_state_dict(weights)
    second.load_state_dict(state)
    for optimizer in (first, second):
        kept = [value for state in optimizer.state.values() for value in state.values()]
        assert kept and all(value.dtype == wide for value in kept)
    for model, optimizer in ((one, first), (other, second)):
        trained(model, optimizer, 5, 10)
    assert all(map(torch.equal, one.parameters(), other.parameters()))
    trained(made(seed=1).to(dtype), second, 0, 1)  # what was handed over is not written to
    assert all(map(torch.equal, one.parameters(), other.parameters()))


@every
def test_odd_parameters_move_as_plain_ones_do(name):
    """None, one number, transposed, every second entry, a part of rows, three axes."""
    draw = torch.Generator().manual_seed(0)
    odd = [
        torch.zeros(0, 3),
        torch.tensor(1.5),
        torch.randn(5, 4, generator=draw).t(),
        torch.randn(6, generator=draw)[::2],
        torch.randn(4, 6, generator=draw)[:, 1:3],
        torch.randn(2, 3, 4, generator=draw),
    ]
    ends = []
    for tensors in (odd, [x.clone(memory_format=torch.contiguous_format) for x in odd]):
        params = [torch.nn.Parameter(x.clone(memory_format=torch.preserve_format)) for x in tensors]
        params = params if tensors is not odd else [torch.nn.Parameter(x) for x in odd]
        optimizer = MAKERS[name](params, **WITH_MOMENTUM)
        for k in range(3):
            for x in params:
                x.grad = torch.cos(x.detach() + k)
            optimizer.step()
        ends.append([x.detach().clone() for x in params])
    for one, other in zip(*ends, strict=True):
        assert torch.isfinite(one).all() and torch.allclose(one, other, rtol=1e-4, atol=1e-6)


@every
def test_a_state_of_another_shape_or_optimizer_is_refused_and_changes_nothing(name):
    one = made()
    mine = MAKERS[name](one.parameters(), **WITH_MOMENTUM)
    trained(one, mine, 0, 3)
    before = copy.deepcopy(mine.state_dict())
    wide = made(width=7)
    theirs = MAKERS[name](wide.parameters(), **WITH_MOMENTUM)
    trained(wide, theirs, 0, 3)
    sgd = torch.optim.SGD(one.parameters(), lr=0.1)
    for state, said in ((theirs.state_dict(), "another model"), (sgd.state_dict(), "another opt")):
        with pytest.raises(Unsupported, match=said):
            mine.load_state_dict(state)
    after = mine.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for k, kept in before["state"].items():
        assert all(torch.equal(value, after["state"][k][part]) for part, value in kept.items())


@every
@pytest.mark.parametrize("lr", ["0.1", None])
def test_a_rate_that_is_no_number(name, lr):
    with pytest.raises(Unsupported, match="it must be a number"):
        MAKERS[name](made().parameters(), lr=lr)


@every
def test_weights_frozen_midway_stay_and_go_on(name):
    model = made()
    optimizer = MAKERS[name](model.parameters(), **WITH_MOMENTUM)
    trained(model, optimizer, 0, 3)
    weight = model[0].weight
    weight.requires_grad_(False)
    kept = weight.detach().clone()
    trained(model, optimizer, 3, 6)
    assert torch.equal(weight, kept)
    weight.requires_grad_(True)
    trained(model, optimizer, 6, 9)
    assert not torch.equal(weight, kept) and torch.isfinite(weight).all()


@every
def test_a_shared_parameter_is_moved_once(name):
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(4, 4, generator=draw)
    ends = []
    for shared in (True, False):
        first, second = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
        first.weight = torch.nn.Parameter(start.clone())
        if shared:
            second.weight = first.weight
        model = torch.nn.Sequential(first, second) if shared else torch.nn.Sequential(first)
        optimizer = MAKERS[name](model.parameters())
        for x in optimizer.param_groups[0]["params"]:
            x.grad = torch.ones_like(x)
        optimizer.step()
        ends.append(first.weight.detach().clone())
    assert torch.equal(*ends)


@every
@pytest.mark.parametrize("lr", [3.0, -1.0, float("nan")])
def test_a_rate_that_a_schedule_spoils_stops_every_group(name, lr):
    """The second group's rate is at fault: the first has not moved either."""
    model = made()
    parts = [{"params": model[0].parameters()}, {"params": model[2].parameters()}]
    optimizer = MAKERS[name](parts, weight_decay=0.5)
    trained(model, optimizer, 0, 2)
    before = [x.detach().clone() for x in model.parameters()]
    optimizer.param_groups[1]["lr"] = lr
    with pytest.raises(Unsupported, match="lr × weight_decay"):
        trained(model, optimizer, 2, 3)
    assert all(map(torch.equal, before, model.parameters()))


def grouped(**options):
    """A model and an optimizer with a group of its own for each parameter."""
    model = made()
    exponents = (1.1, 2.0, 1.3, 3.0)
    parts = [{"params": x, "p": p} for x, p in zip(model.parameters(), exponents, strict=True)]
    return model, at.MirrorDescent(parts, lr=0.01, **options)


@pytest.mark.parametrize("place", range(4))
def test_a_refused_step_changes_no_group(place):
    model, optimizer = grouped(check_finite=True)
    straight, unchecked = grouped()
    trained(model, optimizer, 0, 3)
    list(model.parameters())[place].grad.view(-1)[-1] = float("nan")
    with pytest.raises(Unsupported, match=f"parameter 0 of group {place}, shape .* is not finite"):
        optimizer.step()
    trained(model, optimizer, 3, 6)
    trained(straight, unchecked, 0, 6)
    assert all(map(torch.equal, model.parameters(), straight.parameters()))


def test_finite_gradients_of_every_size_are_taken():
    x, empty = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(0))
    x.grad, empty.grad = torch.full((5,), torch.finfo(torch.float32).max), torch.ones(0)
    at.MirrorDescent([x, empty], lr=1e-38, p=1.5, check_finite=True).step()
    assert torch.isfinite(x).all()


def test_a_state_may_be_cleared():
    model, optimizer = grouped()
    trained(model, optimizer, 0, 3)
    other, anew = grouped()
    other.load_state_dict(model.state_dict())
    optimizer.state.clear()
    trained(model, optimizer, 3, 5)
    trained(other, anew, 3, 5)
    assert all(map(torch.equal, model.parameters(), other.parameters()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_exponent_may_change_between_steps(dtype):
    model = made().to(dtype)
    optimizer = at.MirrorDescent(model.parameters(), lr=0.01, p=1.5)
    trained(model, optimizer, 0, 3)
    twin = copy.deepcopy(model)
    optimizer.param_groups[0]["p"] = 1.25
    trained(model, optimizer, 3, 5)
    trained(twin, at.MirrorDescent(twin.parameters(), lr=0.01, p=1.25), 3, 5)
    assert all(map(torch.equal, model.parameters(), twin.parameters()))

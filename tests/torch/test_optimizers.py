"""Optimizers: steps by hand, equality with the pure ones, torch.optim's conventions, states."""

import copy
import io
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch

import attsvm.torch as at
from attsvm.errors import Unsupported
from attsvm.torch import optimizers
from attsvm.training.optimizers import optimizer_of
from attsvm.training.optimizers.optimizer import Gradient
from tests.torch.small import made, moved, quadratic, trained

MAKERS = {
    "mirror": lambda params, **o: at.MirrorDescent(params, **{"lr": 0.05, "p": 1.1, **o}),
    "mirror-3": lambda params, **o: at.MirrorDescent(params, **{"lr": 0.01, "p": 3.0, **o}),
    "mirror-2": lambda params, **o: at.MirrorDescent(params, **{"lr": 0.05, "p": 2.0, **o}),
    "nmirror": lambda params, **o: at.MirrorDescent(
        params, **{"lr": 0.05, "p": 1.5, "normalized": True, **o}
    ),
    "ngd": lambda params, **o: at.NormalizedGD(params, **{"lr": 0.05, **o}),
    "sign": lambda params, **o: at.SteepestDescent(params, **{"lr": 0.01, "norm": "max", **o}),
    "spectral": lambda params, **o: at.SteepestDescent(
        params, **{"lr": 0.05, "norm": "spectral", **o}
    ),
    "l1.5": lambda params, **o: at.SteepestDescent(params, **{"lr": 0.05, "norm": "l1.5", **o}),
}  # fmt: skip
RULES = {
    "mirror:1.1": lambda params: at.MirrorDescent(params, lr=0.05, p=1.1),
    "mirror:3": lambda params: at.MirrorDescent(params, lr=0.05, p=3.0),
    "mirror:1.3": lambda params: at.MirrorDescent(params, lr=0.05, p=1.3),
    "nmirror:1.1": lambda params: at.MirrorDescent(params, lr=0.05, p=1.1, normalized=True),
    "nmirror:2.5": lambda params: at.MirrorDescent(params, lr=0.05, p=2.5, normalized=True),
    "gd": lambda params: at.MirrorDescent(params, lr=0.05, p=2.0),
    "ngd": lambda params: at.NormalizedGD(params, lr=0.05),
    "sign": lambda params: at.SteepestDescent(params, lr=0.05, norm="max"),
    "spectral": lambda params: at.SteepestDescent(params, lr=0.05, norm="spectral"),
    "signum": lambda params: at.SteepestDescent(params, lr=0.05, norm="max", momentum=0.9),
}
every = pytest.mark.parametrize("name", MAKERS)


@pytest.mark.parametrize("name", RULES)
def test_steps_are_those_of_the_rule(name):
    rng = np.random.default_rng(3)
    rule = optimizer_of(name, momentum=0.9) if name == "signum" else optimizer_of(name)
    blocks = {"W": rng.standard_normal((1, 5, 4)), "v": rng.standard_normal((1, 6))}
    params = {x: torch.nn.Parameter(torch.tensor(a[0])) for x, a in blocks.items()}
    optimizer, state = RULES[name](params.values()), rule.init(blocks)
    for count in range(25):
        g = {x: rng.standard_normal(a.shape) for x, a in blocks.items()}
        for x, p in params.items():
            p.grad = torch.tensor(g[x][0])
        optimizer.step()
        gradient = Gradient(g, {x: np.zeros(1) for x in g})
        blocks, state = rule.update(
            blocks, gradient, state, np.array([0.05]), np.array([1.0]), count
        )
        for x, p in params.items():
            assert np.allclose(p.detach().numpy(), blocks[x][0], rtol=1e-12, atol=1e-13), count


def test_mirror_step_by_hand():
    w = torch.nn.Parameter(torch.tensor([8.0, -1.0, 0.0], dtype=torch.float64))
    w.grad = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    at.MirrorDescent([w], lr=1.0, p=1.5, weight_decay=0.75).step()
    # u = sign(w)√|w|, s = √¼ = ½, w = u|u|.
    u = np.array([np.sqrt(8) / 2 - 1, -0.5 + 2, -0.5])
    assert np.allclose(w.detach().numpy(), u * np.abs(u), rtol=1e-14)


def test_decay_alone_multiplies_the_weight():
    for p in (1.1, 1.5, 2.0, 3.0):
        w = torch.nn.Parameter(torch.tensor([0.5, -0.25, 2.0], dtype=torch.float64))
        w.grad = torch.zeros_like(w)
        at.MirrorDescent([w], lr=0.1, p=p, weight_decay=0.5).step()
        assert np.allclose(w.detach().numpy(), [0.475, -0.2375, 1.9], rtol=1e-13)


def test_p_2_is_sgd_with_momentum():
    mine, theirs = made(), made()
    a = at.MirrorDescent(mine.parameters(), lr=0.05, p=2.0, momentum=0.9)
    b = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    for _ in range(10):
        moved(mine, a), moved(theirs, b)
    for x, y in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(x, y, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("p", [1.1, 1.5, 1.3, 3.0])
def test_single_precision_follows_double(p):
    model = made()
    double = copy.deepcopy(model).double()
    a = at.MirrorDescent(model.parameters(), lr=0.02, p=p)
    b = at.MirrorDescent(double.parameters(), lr=0.02, p=p)
    for _ in range(20):
        moved(model, a), moved(double, b)
    for x, y in zip(model.parameters(), double.parameters(), strict=True):
        assert torch.allclose(x.double(), y, rtol=2e-3, atol=2e-5)


def test_zeros_move_and_bfloat16_keeps_its_dual_in_single_precision():
    w = torch.nn.Parameter(torch.zeros(4, dtype=torch.bfloat16))
    optimizer = at.MirrorDescent([w], lr=1e-3, p=1.1)
    for _ in range(900):  # each is far below the rounding of u = 0.9 in bfloat16
        w.grad = -torch.ones_like(w)
        optimizer.step()
    assert optimizer.state[w]["dual"].dtype == torch.float32
    assert torch.allclose(w.float(), torch.tensor(0.9**10), rtol=5e-3)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@every
def test_copies_go_on_by_themselves(name, how):
    model = made()
    optimizer = MAKERS[name](model.parameters())
    trained(model, optimizer, 0, 4)
    twin, other = how((model, optimizer))
    trained(model, optimizer, 4, 8)
    trained(twin, other, 4, 8)
    for x, y in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(x, y)


@every
def test_closure_groups_and_schedulers(name):
    a, b = torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(2))
    groups = [{"params": [a]}, {"params": [b], "lr": 0.0}]
    optimizer = MAKERS[name](groups)

    def closure():
        optimizer.zero_grad()
        loss = (a**2).sum() + (b**2).sum()
        loss.backward()
        return loss

    assert float(optimizer.step(closure).detach()) == 8.0
    assert (a < 1).any() and torch.allclose(b, torch.ones(2), rtol=1e-6), "lr = 0 stands still"
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    before = optimizer.param_groups[0]["lr"]
    optimizer.step(closure)
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == before / 2


@every
def test_a_parameter_without_a_gradient_stays(name):
    a, b = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2, 2))
    a.grad = torch.ones_like(a)
    MAKERS[name]([a, b], weight_decay=0.1).step()
    assert torch.equal(b, torch.ones(2, 2)) and not torch.equal(a, b)


def test_weights_changed_from_outside_are_taken_up():
    for change in (lambda w: w.mul_(3.0), lambda w: w.data.mul_(3.0)):
        w = torch.nn.Parameter(torch.tensor([0.5, -0.25], dtype=torch.float64))
        optimizer = at.MirrorDescent([w], lr=0.1, p=1.5)
        w.grad = torch.ones_like(w)
        optimizer.step()
        with torch.no_grad():
            change(w)
        optimizer.forget()
        expected = torch.sign(w) * w.detach().abs().sqrt() - 0.1
        optimizer.step()
        assert torch.allclose(w, expected * expected.abs(), rtol=1e-12)
    with torch.no_grad():
        w.clamp_(-0.1, 0.1)  # seen without a word
    expected = torch.sign(w) * w.detach().abs().sqrt() - 0.1
    optimizer.step()
    assert torch.allclose(w, expected * expected.abs(), rtol=1e-12)


def test_amp_and_gradient_scaling():
    model = made()
    optimizer = at.MirrorDescent(model.parameters(), lr=0.2, p=1.1)
    scaler = torch.amp.GradScaler("cpu")
    first = None
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = quadratic(model)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        first = first or float(loss.detach())
    assert float(loss.detach()) < 0.8 * first


@pytest.mark.parametrize("norm", ["frobenius", "max", "spectral", "l1.5", "l4"])
def test_steps_have_length_one_in_their_norm_and_lower_the_loss_most(norm):
    from attsvm.norms import norm_of
    from attsvm.torch.optimizers import direction_of

    rng = np.random.default_rng(5)
    for scale in (1.0, 1e-30, 1e30):
        G = rng.standard_normal((4, 3)) * scale
        D = direction_of(norm)(torch.tensor(G)).numpy()
        assert abs(norm_of(norm).value(D) - 1) < 1e-9
        # ⟨g, D⟩ is the dual norm, which bounds it for every D of length one.
        assert np.isclose((G * D).sum(), norm_of(norm).dual(G), rtol=1e-9)
    assert not direction_of(norm)(torch.zeros(3, 2)).any()


@every
def test_gradients_are_not_inspected(name):
    w = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    w.grad = torch.tensor([1.0, float("nan"), 1.0], dtype=torch.float64)
    MAKERS[name]([w]).step()
    assert torch.isnan(w[1]) or name == "sign", "torch.sign makes a NaN a zero"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"p": 1.0}, "above 1"), ({"p": 0.5}, "above 1"), ({"p": float("nan")}, "above 1"),
        ({"p": float("inf")}, "above 1"), ({"lr": -1.0}, "lr is -1"), ({"lr": float("nan")}, "lr"),
        ({"momentum": 1.0}, "momentum"), ({"weight_decay": -0.1}, "weight_decay"),
        ({"lr": "0.1"}, "must be a number"), ({"lr": None}, "must be a number"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(options, said):
    w = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(Unsupported, match=said):
        at.MirrorDescent([w], **{"lr": 0.1, "p": 1.5, **options})
    optimizer = at.MirrorDescent([w], lr=0.1, p=1.5)
    with pytest.raises(Unsupported, match=said):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))], **options})
    assert len(optimizer.param_groups) == 1


@every
def test_parameters_that_cannot_be_moved(name):
    for dtype in (torch.int64, torch.complex64, torch.bool):
        with pytest.raises(Unsupported, match="floating-point"):
            MAKERS[name]([torch.ones(2).to(dtype)])
    w = torch.nn.Parameter(torch.ones(3, 2))
    w.grad = torch.sparse_coo_tensor([[0], [1]], [1.0], (3, 2), check_invariants=True)
    with pytest.raises(Unsupported, match="sparse"):
        MAKERS[name]([w]).step()
    assert torch.equal(w, torch.ones(3, 2))


def test_a_state_brings_its_exponent_as_all_options():
    model = made()
    optimizer = at.MirrorDescent(model.parameters(), lr=0.1, p=1.5)
    trained(model, optimizer, 0, 1)
    twin = copy.deepcopy(model)
    other = at.MirrorDescent(twin.parameters(), lr=0.2, p=1.1)
    other.load_state_dict(optimizer.state_dict())
    trained(model, optimizer, 1, 4)
    trained(twin, other, 1, 4)
    assert all(map(torch.equal, model.parameters(), twin.parameters()))


@every
def test_a_state_of_another_optimizer_is_refused(name):
    mine = MAKERS[name](made().parameters())
    with pytest.raises(Unsupported, match="of another optimizer"):
        mine.load_state_dict(torch.optim.SGD(made().parameters(), lr=0.1).state_dict())


def test_norms_that_do_not_exist():
    for norm in ("l1", "l0.5", "nuclear", 3):
        with pytest.raises(Unsupported, match="norm is"):
            at.SteepestDescent([torch.nn.Parameter(torch.ones(2))], norm=norm)
    with pytest.raises(Unsupported, match="SteepestDescent"):
        at.NormalizedGD([torch.nn.Parameter(torch.ones(2))], norm="max")


def test_groups_keep_biases_and_gains_apart():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    first, second = at.groups(model, p=1.1, lr=0.5)
    assert [name for name, _ in first["params"]] == ["0.weight"] and first["p"] == 1.1
    assert [name for name, _ in second["params"]] == ["0.bias", "1.weight", "1.bias"]
    optimizer = at.MirrorDescent([first, second], lr=0.1)
    assert [group["p"] for group in optimizer.param_groups] == [1.1, 2.0]
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]
    with pytest.raises(Unsupported, match="group 0 has no exponent: give p"):
        at.MirrorDescent(model.parameters(), lr=0.1)
    for x in model.parameters():
        x.requires_grad_(False)
    with pytest.raises(Unsupported, match="no parameter"):
        at.groups(model, p=1.1)


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


def looped(u, p):
    """The weights that the compiled loop leaves for the dual variable u."""
    w = torch.empty_like(u)
    assert optimizers._looped(w, u.clone(), torch.zeros_like(u), lr=0.0, shrink=1.0, p=p)
    return w


@pytest.mark.parametrize("p", [1.3, 1.7, 2.5, 6.0])
def test_powers_over_the_range_of_floats(p):
    u = torch.exp2(torch.linspace(-125.5, 126.5, 20011))
    w = looped(u, p).double()
    exact = u.double() ** (1 / (p - 1))
    inside = (exact > 1.2e-38) & (exact < 3.3e38)
    assert (w[inside] / exact[inside] - 1).abs().max() < 6e-7
    assert (w[exact > 3.5e38] == torch.inf).all() and (w[exact < 6e-46] == 0).all()


@pytest.mark.parametrize("k", [2, 3, 9, 10, 64])
def test_whole_powers_against_fractions(k):
    u = torch.randn(60, generator=torch.Generator().manual_seed(0))
    w = looped(u, 1 + 1 / k)
    for a, b in zip(u.tolist(), w.tolist(), strict=True):
        exact = Fraction(a) * abs(Fraction(a)) ** (k - 1)
        assert abs(Fraction(b) - exact) <= Fraction(k, 2**23) * abs(exact) + Fraction(1, 10**37)


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

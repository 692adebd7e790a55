"""The optimizers: steps by hand, equality with the pure rules, torch.optim's conventions."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch

import attsvm.torch as at
from attsvm.errors import Unsupported
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
@pytest.mark.parametrize("foreach", [None, True])
def test_single_precision_follows_double(p, foreach):
    model = made()
    double = copy.deepcopy(model).double()
    a = at.MirrorDescent(model.parameters(), lr=0.02, p=p, foreach=foreach)
    b = at.MirrorDescent(double.parameters(), lr=0.02, p=p, foreach=foreach)
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


@every
def test_a_resumed_run_is_the_uninterrupted_one(name):
    whole, first = made(), made()
    straight = MAKERS[name](whole.parameters(), momentum=0.5)
    before = MAKERS[name](first.parameters(), momentum=0.5)
    trained(whole, straight, 0, 12)
    trained(first, before, 0, 5)
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "optimizer": before.state_dict()}, file)
    file.seek(0)
    kept = torch.load(file, weights_only=True)
    second = made(seed=9)
    after = MAKERS[name](second.parameters(), momentum=0.5)
    second.load_state_dict(kept["model"])
    after.load_state_dict(kept["optimizer"])
    trained(second, after, 5, 12)
    for x, y in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(x, y)


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


def test_bfloat16_state_survives_its_file_digit_by_digit():
    model = made().bfloat16()
    optimizer = at.MirrorDescent(model.parameters(), lr=1e-3, p=1.1)
    trained(model, optimizer, 0, 3)
    twin = copy.deepcopy(model)
    other = at.MirrorDescent(twin.parameters(), lr=1e-3, p=1.1)
    other.load_state_dict(optimizer.state_dict())
    for x, y in zip(model.parameters(), twin.parameters(), strict=True):
        assert other.state[y]["dual"].dtype == torch.float32
        assert torch.equal(optimizer.state[x]["dual"], other.state[y]["dual"])


@every
def test_closure_groups_maximize_and_schedulers(name):
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
    up = torch.nn.Parameter(torch.ones(3, 2))
    up.grad = torch.ones_like(up)
    MAKERS[name]([up], maximize=True).step()
    assert (up >= 1).all() and (up > 1).any()
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@every
def test_gradients_that_are_not_finite_change_nothing(name, bad, dtype):
    model = made().to(dtype)
    optimizer = MAKERS[name](list(model.named_parameters()), momentum=0.5, check_finite=True)
    trained(model, optimizer, 0, 2)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    for x in model.parameters():
        x.grad = torch.ones_like(x)
    last = list(model.named_parameters())[-1]
    last[1].grad[-1] = bad
    with pytest.raises(Unsupported, match=f"parameter '{last[0]}' is not finite"):
        optimizer.step()
    after = (model.state_dict(), optimizer.state_dict())
    assert all(torch.equal(before[0][k], after[0][k]) for k in before[0])
    for k, kept in before[1]["state"].items():
        assert all(torch.equal(kept[x], after[1]["state"][k][x]) for x in kept)


@every
def test_gradients_are_not_inspected_by_default(name):
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


def test_states_of_another_model_or_exponent():
    model = made()
    optimizer = at.MirrorDescent(model.parameters(), lr=0.1, p=1.5)
    trained(model, optimizer, 0, 1)
    other = at.MirrorDescent(made().parameters(), lr=0.1, p=1.1)
    with pytest.raises(Unsupported, match="another"):
        other.load_state_dict(optimizer.state_dict())
    wide = at.MirrorDescent(made(width=7).parameters(), lr=0.1, p=1.5)
    with pytest.raises(Unsupported, match="another model"):
        wide.load_state_dict(optimizer.state_dict())
    assert not wide.state and not other.state


def test_norms_that_do_not_exist():
    for norm in ("l1", "l0.5", "nuclear", 3):
        with pytest.raises(Unsupported, match="norm is"):
            at.SteepestDescent([torch.nn.Parameter(torch.ones(2))], norm=norm)
    with pytest.raises(Unsupported, match="SteepestDescent"):
        at.NormalizedGD([torch.nn.Parameter(torch.ones(2))], norm="max")


def test_groups_keep_biases_and_gains_apart():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    model.add_module("out_norm", torch.nn.Linear(4, 4, bias=False))
    first, second = at.groups(model, p=1.1, lr=0.5)
    assert [name for name, _ in first["params"]] == ["0.weight"] and first["p"] == 1.1
    assert [name for name, _ in second["params"]] == [
        "0.bias",
        "1.weight",
        "1.bias",
        "out_norm.weight",
    ]
    optimizer = at.MirrorDescent([first, second], lr=0.1)
    assert [group["p"] for group in optimizer.param_groups] == [1.1, 2.0]
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]
    with pytest.raises(Unsupported, match="group 0 has no exponent: give p"):
        at.MirrorDescent(model.parameters(), lr=0.1)
    for x in model.parameters():
        x.requires_grad_(False)
    with pytest.raises(Unsupported, match="no parameter"):
        at.groups(model, p=1.1)


def test_compiled_models_train_the_same():
    model = made()
    twin = copy.deepcopy(model)
    a = at.MirrorDescent(model.parameters(), lr=0.02, p=1.1)
    b = at.MirrorDescent(twin.parameters(), lr=0.02, p=1.1)
    compiled = torch.compile(twin, backend="eager")
    for _ in range(3):
        moved(model, a), moved(compiled, b)
    for x, y in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(x, y)

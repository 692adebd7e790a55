"""Steps that look at gradients as they move: the same step, and a way back bit by bit."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attsvm.errors import Unsupported  # noqa: E402
from attsvm.torch import MirrorDescent, mirror, one_pass  # noqa: E402
from tests.torch.test_one_pass import EXPONENTS, drawn  # noqa: E402

BAD = (np.nan, np.inf, -np.inf)


def on_a_line(size):
    """An array of zeros that begins at a multiple of 64 bytes."""
    room = np.zeros(size + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + size]


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 1001])
def test_the_step_beside_is_the_step(p, size):
    u, g, w = drawn(size)
    before, new, mine = u.copy(), on_a_line(size), on_a_line(size)
    assert one_pass.step_beside(u, g, new, mine, lr=0.01, shrink=0.999, p=p)
    assert np.array_equal(u, before), "the way back is there"
    one_pass.step(u, g, w, lr=0.01, shrink=0.999, p=p)
    assert new.tobytes() == u.tobytes() and mine.tobytes() == w.tobytes()


@pytest.mark.parametrize("p", [1.1, 3.0, 1.3])
@pytest.mark.parametrize("size", [1, 16, 17, 100, 4096])
def test_the_step_beside_looks_everywhere(p, size):
    u, g, _ = drawn(size)
    for place in range(0, size, max(1, size // 37)):
        for bad in BAD:
            spoilt = g.copy()
            spoilt[place] = bad
            out = on_a_line(size), on_a_line(size)
            assert not one_pass.step_beside(u, spoilt, *out, lr=0.01, shrink=1.0, p=p)
    largest = np.full(size, 3.4028235e38, np.float32)
    out = on_a_line(size), on_a_line(size)
    assert one_pass.step_beside(u, largest, *out, lr=1e-30, shrink=1.0, p=p)


def test_far_stores_begin_on_lines():
    u, g, _ = drawn(64)
    room = on_a_line(80)
    with pytest.raises(ValueError, match="multiples of 64"):
        one_pass.step_beside(u, g, on_a_line(64), room[3:67], lr=0.1, shrink=1.0, p=1.1)
    near, far = on_a_line(64), room[3:67]
    one_pass.step(u.copy(), g, near, lr=0.1, shrink=1.0, p=1.1)
    one_pass.step(u, g, far, lr=0.1, shrink=1.0, p=1.1, far=True)
    assert near.tobytes() == far.tobytes()


def built(*, check=True, ps=(1.1, 3.0, 2.0, 1.3)):
    """An optimizer of five groups, with names, a bfloat16 tensor among them."""
    torch.manual_seed(0)
    groups = []
    for k, p in enumerate(ps):
        tensors = [torch.randn(33, 50), torch.randn(7)]
        tensors[0][0, :3] = torch.tensor([0.0, -0.0, 1e-30])
        named = [(f"{k}.{j}", torch.nn.Parameter(x)) for j, x in enumerate(tensors)]
        groups.append({"params": named, "p": p, "weight_decay": 0.1 * k})
    odd = torch.nn.Parameter(torch.randn(40, 40).to(torch.bfloat16))
    groups.append({"params": [("odd", odd)], "p": 1.5})
    optimizer = MirrorDescent(groups, lr=0.01, p=1.5, check_finite=check)
    return optimizer, [x for group in optimizer.param_groups for x in group["params"]]


def run(optimizer, params, steps, start=0):
    for step in range(start, start + steps):
        draw = torch.Generator().manual_seed(step)
        for x in params:
            x.grad = torch.randn(x.shape, generator=draw).to(x.dtype)
        optimizer.step()


def everything(optimizer, params):
    """Every bit that a step could change."""
    out = [x.detach().float().numpy().tobytes() for x in params]
    for x in params:
        state = optimizer.state[x]
        out += [state[name].float().numpy().tobytes() for name in sorted(state)]
    return out


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr(mirror, "LARGE", 1000)


@pytest.mark.parametrize("threads", [1, 2])
def test_looking_changes_no_digit(threads, monkeypatch):
    monkeypatch.setattr("attsvm.torch.threads.FEWEST", 500)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        (one, mine), (other, theirs) = built(), built(check=False)
        run(one, mine, 5)
        run(other, theirs, 5)
    finally:
        torch.set_num_threads(before)
    assert len(one._spare) == 3, "the large tensors of p = 1.1, 3 and 1.3"
    assert not other._spare
    assert everything(one, mine) == everything(other, theirs)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", range(9))
def test_a_step_is_taken_back_bit_by_bit(place, bad):
    optimizer, params = built()
    run(optimizer, params, 3)
    before = everything(optimizer, params)
    for x in params:
        x.grad = torch.ones_like(x)
    params[place].grad.view(-1)[-1] = bad
    name = [name for group in optimizer.param_groups for name in group["param_names"]][place]
    for _ in range(2):
        with pytest.raises(Unsupported, match=f"parameter '{name}' is not finite"):
            optimizer.step()
        assert everything(optimizer, params) == before
    run(optimizer, params, 3, start=3)
    other, theirs = built()
    run(other, theirs, 6)
    assert everything(optimizer, params) == everything(other, theirs)


def test_weights_of_other_hands_are_looked_at_first():
    optimizer, params = built()
    run(optimizer, params, 3)
    with torch.no_grad():
        params[0].mul_(0.3)  # no dual variable gives these weights again
    before = everything(optimizer, params)[: len(params)]
    for x in params:
        x.grad = torch.ones_like(x)
    params[0].grad[2, 2] = np.nan
    with pytest.raises(Unsupported, match=r"'0\.0' is not finite"):
        optimizer.step()
    assert everything(optimizer, params)[: len(params)] == before
    params[0].grad[2, 2] = 1.0
    params[-3].grad[:] = np.nan
    with pytest.raises(Unsupported, match="not finite"):
        optimizer.step()
    assert everything(optimizer, params)[: len(params)] == before


def test_copies_and_resumed_optimizers_go_on_alike():
    optimizer, params = built()
    run(optimizer, params, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    weights = [x.detach().clone() for x in params]
    assert all(set(kept) == {"dual"} for kept in saved["state"].values())
    run(optimizer, params, 3, start=3)
    other, theirs = built()
    with torch.no_grad():
        for x, w in zip(theirs, weights, strict=True):
            x.copy_(w)
    other.load_state_dict(saved)
    run(other, theirs, 3, start=3)
    assert everything(other, theirs) == everything(optimizer, params)
    twin_params, twin = copy.deepcopy((params, optimizer))
    run(twin, twin_params, 2, start=6)
    run(optimizer, params, 2, start=6)
    assert everything(twin, twin_params) == everything(optimizer, params)


def test_dual_variables_may_begin_anywhere():
    optimizer, params = built()
    other, theirs = built()
    run(optimizer, params, 2)
    run(other, theirs, 2)
    for x in params:
        dual = optimizer.state[x].get("dual")
        if dual is not None:  # one entry off, as memory mapped from a file may be
            room = torch.empty(dual.numel() + 1, dtype=dual.dtype)
            room[1:] = dual.reshape(-1)
            optimizer.state[x]["dual"] = room[1:].reshape(x.shape)
    run(optimizer, params, 4, start=2)
    run(other, theirs, 4, start=2)
    assert everything(optimizer, params) == everything(other, theirs)


def test_weights_may_begin_anywhere():
    room = torch.randn(3001)
    x = torch.nn.Parameter(room[1:].reshape(60, 50))
    y = torch.nn.Parameter(x.detach().clone())
    one, other = MirrorDescent([x], lr=0.1, p=1.1), MirrorDescent([y], lr=0.1, p=1.1)
    run(one, [x], 4)
    run(other, [y], 4)
    assert x.data_ptr() % 64 and not one._spare and other._spare
    assert torch.equal(x, y)


def test_a_state_may_be_cleared():
    optimizer, params = built()
    run(optimizer, params, 3)
    optimizer.state.clear()
    run(optimizer, params, 2, start=3)
    other, theirs = built()
    with torch.no_grad():
        run(other, theirs, 3)
        anew, weights = built()
        for x, y in zip(weights, theirs, strict=True):
            x.copy_(y)
    run(anew, weights, 2, start=3)
    assert everything(optimizer, params) == everything(anew, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_exponent_may_change_between_steps(dtype):
    torch.manual_seed(0)
    x = torch.nn.Parameter(torch.randn(40, 30).to(dtype))
    optimizer = MirrorDescent([x], lr=0.01, p=1.5)
    run(optimizer, [x], 3)
    y = torch.nn.Parameter(x.detach().clone())
    optimizer.param_groups[0]["p"] = 1.25
    run(optimizer, [x], 2, start=3)
    run(MirrorDescent([y], lr=0.01, p=1.25), [y], 2, start=3)
    assert torch.equal(x, y), "as an optimizer that begins here with that exponent"

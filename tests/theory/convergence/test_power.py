"""The power cone: mirror descent stays in it, and what must not be proved is not."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import attsvm
from attsvm.theory.convergence import power_cone
from attsvm.theory.convergence.power_cone import Exponent, radii, spread_of
from attsvm.theory.convergence.prover import prover
from tests.theory.convergence.power_hunt import (
    cosine,
    gradient,
    instance,
    lifted,
    members,
    norm,
    solution,
    stepped,
    tried,
)
from tests.tolerances import ROUNDING

POWERS = [1.5, 1.75, 2.5, 3.0]
# Norms at which the instances below are proved on the ray, with room.
ENOUGH = {1.2: 1e9, 1.5: 9e4, 1.75: 3e3, 2.5: 3e3, 3.0: 9e3, 4.0: 3e5}


def proved(seed, p, optimizer="nmirror", lr=0.1, rank=0, times=1.0):
    tokens, v, alpha = instance(seed, rank=rank)
    W = solution(tokens, alpha, p) * ENOUGH[p] * times
    proof = attsvm.proof_of_convergence(tokens, W, head=v, optimizer=f"{optimizer}:{p:g}", lr=lr)
    return tokens, v, alpha, proof


def scalar(w, x, p):
    return np.abs(w) ** p / p + np.abs(x) ** p * (1 - 1 / p) - w * lifted(x, p - 1)


@pytest.mark.parametrize("p", [1.01, 1.2, 1.5, 1.75, 1.99, 2.01, 2.5, 3.0, 4.0, 7.0])
def test_constants_of_the_exponent_hold_and_are_nearly_the_best(p):
    found = Exponent.of(p)
    rng = np.random.default_rng(int(100 * p))
    x = np.concatenate([rng.standard_normal(100000) * 10.0 ** rng.uniform(-6, 2, 100000),
                        -np.geomspace(1e-12, 1e3, 100000)])  # fmt: skip
    away = np.abs(x - 1) > 1e-3
    x = x[away]
    forth, back = scalar(1.0, x, p), scalar(x, 1.0, p)
    least = float((back / forth).min())
    assert found.even <= least * (1 + 1e-9)
    assert found.even > 0.98 * least
    if p > 2:
        q = p / (p - 1)
        ratio = p * forth / np.abs(x - 1) ** p
        assert found.bend <= ratio.min() * (1 + 1e-9)
        assert found.bend > 0.98 * ratio.min()
        z = x - 1
        lift = (np.abs(1 + z) ** q - 1 - q * z) / np.abs(z) ** q
        assert found.lift >= lift.max() * (1 - 1e-9)
        assert found.lift < 1.02 * lift.max()
        assert found.bend >= 1 / (2 ** (p - 1) - 1)
        assert found.lift <= 2 ** (2 - q) * (1 + 1e-12)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_members_of_the_cone_have_the_margins_and_stay(p, seed):
    tokens, v, alpha, proof = proved(seed, p)
    assert proof.theorem == "power cone", proof.message
    rows = prover(tokens, head=v).rows_for(alpha)
    judge = prover(tokens, head=v, optimizer=f"nmirror:{p:g}")
    axis = judge.geometry(alpha).axis
    u, R = proof.constants["u"], proof.constants["R"]
    spread = spread_of(rows, axis, np.array([u]), radii(axis, np.array([u]))[1]).hi[0]
    assert rows.unit == 1
    least = axis.slack.lo + 1 - spread
    _, every = gradient(tokens, v, alpha, proof.W)
    rng = np.random.default_rng(seed)
    chosen = every[rng.choice(len(every), 8, replace=False)]
    tried, nearest = 0, 0.0
    q = p / (p - 1)
    for x in members(axis.W, chosen, u * (1 - 1e-9), p, rng):
        margins = np.einsum("kij,ij->k", every, x) * float(axis.N.mid)
        assert (margins >= least - 1e-9).all()
        nearest = max(nearest, float(((axis.slack.hi + 1 - margins) / spread).max()))
        for times in (1.0, 3.0, 100.0):
            for h in (proof.lr, proof.longest_step):
                Y, after = stepped(tokens, v, alpha, x * R * times, h, p)
                assert norm(after, q) > norm(Y, q)
                assert cosine(lifted(after, q - 1), axis.W, p) >= 1 - u
                tried += 1
    assert tried > 200
    # The bound on the margins is not far from what is reached: half its sign would be caught.
    assert nearest > 0.5


@pytest.mark.parametrize("p", POWERS)
def test_plain_steps_are_as_short_as_they_are_said_to_be(p):
    tokens, v, alpha = instance(4)
    axis = solution(tokens, alpha, p)
    judge = prover(tokens, head=v, optimizer=f"mirror:{p:g}", lr=1.0)
    R = 100.0
    while not (proof := judge.prove(R * axis, explain=False)).proved:
        R *= 1.1
    assert proof.verify()
    u, q = proof.constants["u"], p / (p - 1)
    _, every = gradient(tokens, v, alpha, proof.W)
    rng = np.random.default_rng(4)
    reached = 0.0
    for x in members(axis, every[::5], u * (1 - 1e-9), p, rng):
        for lr in (1.0, proof.longest_step):
            W = x * proof.constants["R"]
            g, _ = gradient(tokens, v, alpha, W, scaled=False)
            h = lr * norm(g, q)
            if lr == 1.0:
                assert h <= proof.constants["h"]
                reached = max(reached, h / proof.constants["h"])
            after = lifted(W, p - 1) + lr * g
            assert cosine(lifted(after, q - 1), axis, p) >= 1 - u
            assert norm(after, q) >= norm(lifted(W, p - 1), q) * (1 - ROUNDING)
    assert reached > 0


@pytest.mark.parametrize("p", POWERS)
def test_runs_from_the_boundary_stay(p):
    tokens, v, alpha, proof = proved(3, p)
    axis = solution(tokens, alpha, p)
    u, R = proof.constants["u"], proof.constants["R"]
    _, every = gradient(tokens, v, alpha, proof.W)
    rng = np.random.default_rng(7)
    for x in members(axis, every[:2], u * (1 - 1e-6), p, rng, count=2)[:6]:
        path = attsvm.train(
            tokens, head=v, optimizer=f"nmirror:{p:g}", lr=0.1, steps=300, init={"W": x * R}
        )
        for W in path.weights["W"][:, 0]:
            assert 1 - cosine(W, axis, p) <= u * (1 + 1e-6)
            assert norm(W, p) >= R * (1 - 1e-9)
        assert (path.selection[-1] == alpha).all()


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("optimizer", ["mirror", "nmirror"])
def test_a_proof_is_confirmed_saved_and_loaded(p, optimizer, tmp_path):
    _, _, _, proof = proved(2, p, optimizer)
    assert proof.theorem == "power cone"
    assert proof.verify()
    assert proof.longest_step >= proof.lr
    assert np.isnan(proof.bound())
    proof.save(tmp_path / "proof.npz")
    again = attsvm.ConvergenceProof.load(tmp_path / "proof.npz")
    assert again.verify()
    assert again.message == proof.message


@pytest.mark.parametrize("p", [1.75, 3.0])
def test_a_false_word_is_seen(p):
    _, _, _, proof = proved(2, p)
    for name in proof.constants.keys() - {"beta"}:  # which is 0
        wrong = replace(proof, constants={**proof.constants, name: 1.1 * proof.constants[name]})
        assert not wrong.verify(), name
    for change in (
        {"u": proof.witness["u"] * 1e-9},
        {"R": proof.witness["R"] * 2},
        {"axis": proof.witness["axis"] + 0.1 * np.eye(10)},
        {"mu": -proof.witness["mu"]},
    ):
        assert not replace(proof, witness={**proof.witness, **change}).verify(), change
    assert not replace(proof, longest_step=3 * proof.longest_step).verify()
    assert not replace(proof, optimizer="nmirror:1.6").verify()
    assert not replace(proof, optimizer="ngd").verify()
    assert not replace(proof, theorem="cone").verify()


@pytest.mark.parametrize("p", POWERS)
def test_a_flipped_head_is_not_proved(p):
    tokens, v, _, proof = proved(2, p)
    flipped = attsvm.proof_of_convergence(tokens, proof.W, head=-v, optimizer=f"nmirror:{p:g}")
    assert not flipped.proved
    assert "not locally optimal" in flipped.message
    assert flipped.blocked.row is not None
    assert not replace(proof, head=-v).verify()


@pytest.mark.parametrize("p", POWERS)
def test_a_step_above_the_limit_is_not_proved(p):
    tokens, v, alpha, proof = proved(2, p)
    judge = prover(tokens, head=v, optimizer=f"nmirror:{p:g}")
    at = judge.geometry(alpha)
    u, R = np.array([proof.constants["u"]]), proof.constants["R"]
    for times, fits in ((0.99, True), (1.01, False)):
        lr = proof.longest_step * times
        found = power_cone.measure_power(at.rows, at.axis, R, u, lr, plain=judge.plain)
        assert bool(found.fits[0]) is fits
    # Steps a thousand times as long as the norm do leave.
    x = members(at.axis.W, [], float(u[0]) * 0.999, p, np.random.default_rng(0))[0]
    q = p / (p - 1)
    h = 1e3 * norm(lifted(x * R, p - 1), q)
    _, after = stepped(tokens, v, alpha, x * R, h, p)
    assert cosine(lifted(after, q - 1), at.axis.W, p) < 1 - u[0]


@pytest.mark.parametrize("p", POWERS)
def test_with_rows_that_score_more(p):
    """Selections of a second-best token: the better one must not be tight."""
    proofs = 0
    for seed in range(8):
        tokens, v, alpha = instance(seed, rank=1)
        judge = prover(tokens, head=v, optimizer=f"nmirror:{p:g}", lr=0.05)
        proof = judge.prove(solution(tokens, alpha, p) * 1e3 * ENOUGH[p])
        if not proof.proved:
            assert "scores more than the kept token" in proof.message
            continue
        assert proof.verify()
        proofs += 1
        axis = judge.geometry(alpha).axis
        u, R = proof.constants["u"], proof.constants["R"]
        _, every = gradient(tokens, v, alpha, proof.W)
        for x in members(axis.W, every[::6], u * (1 - 1e-9), p, np.random.default_rng(seed)):
            _, after = stepped(tokens, v, alpha, x * R, proof.longest_step, p)
            assert cosine(lifted(after, 1 / (p - 1)), axis.W, p) >= 1 - u
    assert proofs >= 2


@pytest.mark.parametrize(("optimizer", "same"), [("nmirror:2", "ngd"), ("mirror:2", "gd")])
def test_two_goes_the_way_of_gradient_descent(optimizer, same):
    tokens, v, alpha = instance(1)
    W = 300 * solution(tokens, alpha, 2.0)
    one, other = (
        attsvm.proof_of_convergence(tokens, W, head=v, optimizer=x) for x in (optimizer, same)
    )
    assert one.theorem == other.theorem == "tube"
    assert one.constants == other.constants
    assert one.verify()


@pytest.mark.parametrize("p", [1.2, 1.5, 2.5, 4.0])
def test_prompts_and_what_is_small_or_large(p):
    tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    proof = attsvm.proof_of_convergence(
        tokens, [0.0, 50.0 * ENOUGH[p]], head=[0.2, 0.7], optimizer=f"nmirror:{p:g}"
    )
    assert proof.proved, proof.message
    assert proof.verify()
    wide = attsvm.Tokens(np.ldexp(tokens.X, -40))
    W = np.ldexp(np.array([0.0, 50.0]) * ENOUGH[p], 40)
    lr = 0.1 * 2.0 ** (40 * (p - 1))
    again = attsvm.proof_of_convergence(
        wide, W, head=np.ldexp([0.2, 0.7], 40), optimizer=f"nmirror:{p:g}", lr=lr
    )
    assert again.proved
    assert again.verify()
    assert again.constants["u"] == pytest.approx(proof.constants["u"])


def test_far_from_the_direction_the_reason_is_said():
    tokens, v, alpha = instance(2)
    rng = np.random.default_rng(0)
    W = solution(tokens, alpha, 3.0) * 50 + rng.standard_normal((10, 10))
    proof = attsvm.proof_of_convergence(tokens, W, head=v, optimizer="nmirror:3", lr=0.1)
    assert not proof.proved
    assert "which way token" in proof.blocked.reason and proof.blocked.row is not None
    again = W + solution(tokens, alpha, 3.0) * 1e4
    assert attsvm.proof_of_convergence(tokens, again, head=v, optimizer="nmirror:3", lr=0.1).proved


def test_rules_without_a_theorem_are_refused():
    tokens, v, _ = instance(0)
    for optimizer in ("adam", "mirror:1.0001", "nmirror:5000"):
        with pytest.raises(attsvm.Unsupported, match="no theorem"):
            attsvm.proof_of_convergence(tokens, np.eye(10), head=v, optimizer=optimizer)
    with pytest.raises(attsvm.Unsupported, match="no theorem"):
        attsvm.basin(tokens, np.zeros(6, int), head=v, optimizer="nmirror:1.5")


@pytest.mark.parametrize("p", [1.001, 1.02, 1.3, 6.0, 20.0, 1000.0])
def test_extreme_exponents_are_judged_without_failing(p):
    tokens, v, alpha = instance(2, n=2, T=3, d=3)
    judge = prover(tokens, head=v, optimizer=f"mirror:{p:g}", lr=0.1)
    at = judge.geometry(alpha)
    for size in (1.0, 1e3, 1e9):
        if at.direction is not None:
            proof = judge.prove(size * at.direction)
            assert not proof.proved or proof.verify()


def test_no_false_proof_is_found():
    total = Counter()
    for seed in range(30):
        wrong, tally = tried(seed)
        assert not wrong, wrong
        total += tally
    assert total["power cone"] > 20


@pytest.mark.parametrize(
    ("scale", "p"), [(0.01, 200), (10, 200), (1.0, 500), (1e70, 900), (1e-70, 1000)]
)
def test_large_exponents(scale, p):
    """‖W‖^(P−1) leaves the range of floats in any units; the proof, or its reason, does not."""
    rng = np.random.default_rng(7002)
    X, z, v = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 5)), rng.standard_normal(5)
    tokens = attsvm.Tokens(X * scale, queries=z * scale)
    best = attsvm.Selection.best(tokens, v)
    W = attsvm.solve(attsvm.Problem.of(tokens, best)).W * 1e4
    for optimizer in ("mirror", "nmirror"):
        proof = attsvm.proof_of_convergence(tokens, W, head=v, optimizer=f"{optimizer}:{p}")
        assert proof.proved or proof.blocked.row is not None, proof.message
        assert "c_p is 2" not in proof.message


@pytest.mark.parametrize("optimizer", ["mirror", "nmirror"])
def test_a_proof_does_not_depend_on_the_scale_of_the_data(optimizer):
    """Tokens times 2^k, W by 2^−k: h is as long in the data's units as the optimizer makes it."""
    tokens, v, _, proof = proved(2, 3.0, optimizer, times=10.0)
    assert proof.proved
    wide = attsvm.Tokens(
        tokens.X, keys=tokens.keys * 2.0**20, queries=tokens.queries, labels=tokens.labels
    )
    lr = 0.1 * 2.0 ** (-20 * (3 if optimizer == "mirror" else 2))
    again = attsvm.proof_of_convergence(
        wide, proof.W * 2.0**-20, head=v, optimizer=f"{optimizer}:3", lr=lr
    )
    assert again.proved and again.verify()
    assert again.constants["turn"] == pytest.approx(proof.constants["turn"], rel=ROUNDING)

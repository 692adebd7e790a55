"""Objects of one's own: what they declare is no proof, and goes with the functions it speaks of."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import erf

import attsvm
from attsvm import Loss, Unsupported
from attsvm.theory.convergence.prover import prover_of
from attsvm.training.heads import Linear
from attsvm.training.losses import LOSSES
from attsvm.training.models import MODELS
from attsvm.training.optimizers import Optimizer, optimizer_of, with_decay

TOKENS = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]], labels=[1])
HEAD = [0.2, 0.7]
SENTENCES = attsvm.Sentences.of([[0, 1], [1, 2], [2, 0], [0, 1, 2], [1, 0, 0, 2]])
W = [[-30.0, -30.0, 0], [30.0, 30.0, 0], [0, 0, 0]]
NGD = optimizer_of("ngd")


def up(step):
    """Ascent."""
    moved, state = NGD.move(step)
    return {k: 2 * step.params[k] - moved[k] for k in moved}, state


ASCENT = replace(NGD, name="ascent", move=up)
CUBED = optimizer_of("nmirror:3")


@pytest.mark.parametrize(
    "optimizer",
    [
        optimizer_of("ngd", ridge=0.5),
        with_decay(NGD, 0.1),
        ASCENT,
        replace(NGD, move=up),
        replace(NGD, name="mine"),
        replace(CUBED, name="mine"),
        replace(CUBED, init=lambda params: CUBED.init({k: -x for k, x in params.items()})),
        Optimizer("mine", NGD.init, up, dual=(2.0, False)),
        Optimizer("mine", NGD.init, up, fused="ngd"),
        Optimizer("nmirror:2", NGD.init, up, dual=(2.0, False), limit="ngd"),
        optimizer_of("signum"),
        optimizer_of("polyak"),
    ],
    ids=lambda optimizer: optimizer.name,
)
def test_no_other_rule_is_proved(optimizer):
    with pytest.raises(Unsupported):
        attsvm.proof_of_convergence(TOKENS, [0.0, 30.0], head=HEAD, optimizer=optimizer)
    with pytest.raises(Unsupported):
        attsvm.proof_of_convergence(SENTENCES, W, readout="mass", optimizer=optimizer)


@pytest.mark.parametrize("optimizer", ["ngd", NGD, "gd", "nmirror:2"])
def test_listed_rules_are_proved(optimizer):
    assert attsvm.proof_of_convergence(TOKENS, [0.0, 30.0], head=HEAD, optimizer=optimizer).proved
    assert attsvm.proof_of_convergence(SENTENCES, W, readout="mass", optimizer=optimizer).proved


def test_a_replaced_move_is_called():
    path = attsvm.train(TOKENS, head=HEAD, model="prompt", optimizer=ASCENT, steps=100)
    assert path.loss[-1, 0] > path.loss[0, 0]
    assert ASCENT.fused is None and ASCENT.norm is None and ASCENT.clock is None
    assert replace(NGD, name="mine").fused == "ngd"
    assert replace(NGD, move=up, norm="max").norm == "max"  # given anew


def test_names_of_listed_rules_and_losses_are_taken():
    with pytest.raises(Unsupported, match="named 'ngd', as a listed one"):
        attsvm.predict("next-token", Optimizer("ngd", NGD.init, up, limit="ngd"))
    with pytest.raises(Unsupported, match="named 'logistic', as a listed one"):
        attsvm.train(TOKENS, head=HEAD, loss=replace(LOSSES["logistic"], infimum=-1.0))


def test_a_replaced_chain_is_called_and_not_proved():
    weight = MODELS["prompt"]
    model = replace(
        weight,
        name="doubled",
        matrix=lambda params: 2 * weight.matrix(params),
        chain=lambda params, G: {k: 2 * x for k, x in weight.chain(params, G).items()},
    )
    assert not model.fused
    path = attsvm.train(TOKENS, head=HEAD, model=model, optimizer="gd", lr=0.1, steps=3)
    plain = attsvm.train(TOKENS, head=HEAD, model="prompt", optimizer="gd", lr=0.4, steps=3)
    np.testing.assert_allclose(2 * path.at(-1)["p"], plain.at(-1)["p"], rtol=1e-9)
    path = attsvm.train(TOKENS, head=HEAD, model=replace(model, fused=True, about=()), steps=3)
    with pytest.raises(Unsupported, match="no theorem"):
        prover_of(path.config, path.form(None), TOKENS, HEAD)


@dataclass(frozen=True, eq=False)
class Squashed(Linear):
    """Says that it is linear, and is not far out."""

    name = "squashed"

    @property
    def vector(self):
        return 2 * self.v if self.v.max() > 1 else self.v

    def value(self, o):
        return np.minimum(super().value(o), 50.0)


def test_a_head_that_says_it_is_linear_is_not_proved():
    head = Squashed(np.array([HEAD]))
    with pytest.raises(Unsupported, match="no theorem"):
        attsvm.proof_of_convergence(TOKENS, [0.0, 30.0], head=head)
    assert attsvm.outcome([0.0, 30.0], TOKENS, head, optimizer="ngd", lr=0.1).proof is None
    with pytest.raises(Unsupported, match="value is v·o"):
        attsvm.train(TOKENS, head=Squashed(np.array([[2.0, 7.0]])), model="prompt", steps=1)


def bumpy(bumps, floor=1e-3):
    """A loss with |ℓ'| = floor + Σ h e^{−((x−c)/s)²/2}, that falls everywhere and is not convex."""

    def value(x):
        x = np.asarray(x, float)
        rise = [h * s * np.sqrt(np.pi / 2) * erf((x - c) / (s * np.sqrt(2))) for h, c, s in bumps]
        return -floor * x - sum(rise)

    def slope(x):
        x = np.asarray(x, float)
        size = floor + sum(h * np.exp(-(((x - c) / s) ** 2) / 2) for h, c, s in bumps)
        return np.full(x.shape, -1.0), np.log(size)

    def steepness(lo, hi):
        lo, hi = np.broadcast_arrays(np.asarray(lo, float), np.asarray(hi, float))
        least, most, bend = np.full(lo.shape, floor), np.full(lo.shape, floor), np.zeros(lo.shape)
        for h, c, s in bumps:
            a, b = (lo - c) / s, (hi - c) / s
            far = np.maximum(abs(a), abs(b))
            near = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(abs(a), abs(b)))
            least, most = least + h * np.exp(-(far**2) / 2), most + h * np.exp(-(near**2) / 2)
            at = np.clip(1.0, near, far)
            bend = bend + h / s * at * np.exp(-at * at / 2)
        return least * (1 - 1e-12), most * (1 + 1e-12), bend * (1 + 1e-12)

    return Loss("bumpy", value, slope, -np.inf, steepness=steepness)


def test_the_level_bounds_attention_by_the_least_slope():
    """A narrow spike of |ℓ'| below the best score throws a run off: no convexity is assumed."""
    keys = np.array([[[1.0, 0.0], [0.0, 0.0]], [[-0.95, np.sqrt(1 - 0.95**2)], [0.0, 0.0]]])
    values = np.array([[[0.0], [-1000.0]], [[-10.0], [-12.0]]])
    tokens = attsvm.Tokens(values, keys=keys, labels=[1, 1])
    start = np.linalg.solve(keys[:, 0], [np.log(1000 / 0.002), np.log((2 - 0.3) / 0.3)])
    spike = (1e7, -0.5000908453421995, 1e-9)
    loss = bumpy([(10.0, 0.0, 0.005), (1.0, -10.15, 2.0), spike])
    proof = attsvm.proof_of_convergence(
        tokens, start, head=[1.0], optimizer="gd", lr=2.3024620852561415, loss=loss
    )
    assert not proof.proved
    # A loss that is not convex has a level all the same, with shorter steps.
    gentle = bumpy([(1.0, -10.0, 30.0)], floor=1.0)
    near = start + 3.0 * np.linalg.solve(keys[:, 0], np.ones(2))
    found = attsvm.proof_of_convergence(
        tokens, near, head=[1.0], optimizer="gd", lr=0.01, loss=gentle
    )
    assert found.theorem == "level"


def test_a_wrong_steepness_is_refused():
    logistic = LOSSES["logistic"]
    mine = replace(logistic, name="mine", slope=logistic.slope, value=lambda x: logistic.value(x))
    assert mine.steepness is None and mine.code is None
    for steepness in (
        lambda lo, hi: (np.ones(lo.shape), np.ones(lo.shape), np.ones(lo.shape)),
        lambda lo, hi: (*logistic.steepness(lo, hi)[:2], np.zeros(lo.shape)),
    ):
        with pytest.raises(Unsupported, match="steepness"):
            attsvm.train(TOKENS, head=HEAD, loss=replace(mine, steepness=steepness))

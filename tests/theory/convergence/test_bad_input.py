"""Bad and degenerate input: one clear sentence, or an honest 'not proved'; no warning, no crash."""

from dataclasses import replace

import numpy as np
import pytest

from attsvm import Tokens, proof_of_convergence
from attsvm.errors import AttsvmError, Unsupported
from attsvm.theory.convergence.prover import prover
from attsvm.training.heads import Linear, Quadratic
from attsvm.training.optimizers import optimizer_of, with_decay
from tests.theory.convergence.cases import instance, run
from tests.theory.convergence.members import members
from tests.theory.convergence.reference import Case

TOKENS, HEAD = instance("sphere", 0, (3, 4, 5))
X, Y = TOKENS.X, TOKENS.labels
W = 40 * np.random.default_rng(0).standard_normal((5, 5))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"W": W[:4]}, "shape"),
        ({"W": W[0]}, "shape"),
        ({"W": np.stack([W, W])}, "shape"),
        ({"W": W * np.nan}, "not finite"),
        ({"W": W * np.inf}, "not finite"),
        ({"W": "W"}, "real numbers"),
        ({"W": None}, "real numbers"),
        ({"W": W * 1j}, "real numbers"),
        ({"W": [[1, 2], [3]]}, "rectangular"),
        ({"tokens": Tokens(X, labels=Y)}, "shape"),
        ({"tokens": [TOKENS]}, "Tokens"),
        ({"tokens": X}, "Tokens"),
        ({"head": None}, "head"),
        ({"head": HEAD[:3]}, "shape"),
        ({"head": np.stack([HEAD, HEAD])}, "shape"),
        ({"head": HEAD * np.nan}, "finite"),
        ({"head": "v"}, "real numbers"),
        ({"head": HEAD * 1e200}, "finite and below"),
        ({"optimizer": "adam"}, "no theorem"),
        ({"optimizer": "signum"}, "no theorem"),
        ({"optimizer": "descent"}, "unknown optimizer"),
        ({"optimizer": with_decay(optimizer_of("ngd"), 0.1)}, "optimizer"),
        ({"optimizer": replace(optimizer_of("ngd"), name="mine")}, "no theorem"),
        *(({"lr": lr}, "positive step") for lr in (0, -1, np.nan, np.inf, "x", None, True)),
        ({"lr": 10**400}, "positive step"),
        ({"loss": "hinge"}, "unknown loss"),
        ({"loss": None}, "loss"),
    ],
    ids=lambda x: str(x)[:24],
)  # fmt: skip
def test_bad_input_gets_one_sentence(change, said):
    given = {"tokens": TOKENS, "W": W, "head": HEAD, **change}
    with pytest.raises(AttsvmError, match=said):
        proof_of_convergence(given.pop("tokens"), given.pop("W"), **given)


def test_heads_are_linear():
    """A linear Head is its vector; a curved one has no theorem."""
    with pytest.raises(Unsupported, match="no theorem of convergence covers head 'quadratic'"):
        proof_of_convergence(TOKENS, W, head=Quadratic(HEAD[None], 0.1))
    made = [proof_of_convergence(TOKENS, W, head=h) for h in (Linear(HEAD[None]), HEAD[None], HEAD)]
    assert len({proof.message for proof in made}) == 1


@pytest.mark.parametrize("lr", [np.float32(0.1), np.int64(1), 1e300, 1e-300, 5e-324])
@pytest.mark.parametrize("optimizer", ["ngd", "gd"])
def test_any_positive_step_is_judged(lr, optimizer):
    proof = proof_of_convergence(TOKENS, W, head=HEAD, lr=lr, optimizer=optimizer)
    assert proof.proved or "not proved" in proof.message


def single(i):
    """A mask with one token in input i."""
    mask = np.ones((3, 4), dtype=bool)
    mask[i, 1:] = False
    return mask


ZERO = np.where(np.arange(3)[:, None] == 1, 0.0, X[:, 0])
SAME = X.copy()
SAME[0] = SAME[0, 0]
TWINS = X.copy()
TWINS[:, 1] = TWINS[:, 2]
CLOSE = X.copy()
CLOSE[:, 1] = np.nextafter(CLOSE[:, 0], 9.0)
CLOSE[:, 3] = np.nextafter(CLOSE[:, 2], 9.0)


@pytest.mark.parametrize("optimizer", ["ngd", "gd"])
@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (Tokens(X[:, :1], queries="first", labels=Y), "no other token"),
        (Tokens(X, queries="first", labels=Y, mask=np.arange(4) < np.ones((3, 1))), "no other"),
        (Tokens(X, queries=ZERO, labels=Y), "query of input 1 is zero"),
        (Tokens(SAME, queries="first", labels=Y), "same key as the kept token"),
        (Tokens(CLOSE, queries="first", labels=Y), "no feasible W"),
    ],
    ids=lambda x: str(x)[:24],
)
def test_what_cannot_converge_is_said(tokens, said, optimizer):
    proof = proof_of_convergence(tokens, W, head=HEAD, optimizer=optimizer)
    assert not proof.proved and said in proof.message
    assert not proof.verify()
    with pytest.raises(AttsvmError):
        proof.require()


@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear", "squared"])
@pytest.mark.parametrize("optimizer", ["ngd", "gd"])
def test_degenerate_data_are_judged(optimizer, loss):
    """Nothing warns or crashes, and what is proved keeps its inequalities."""
    far = np.sign(W)
    cases = [
        (TOKENS, 0 * W, HEAD),
        (TOKENS, 1e-300 * far, HEAD),
        (TOKENS, 1e300 * far, HEAD),
        (TOKENS, 1.7e308 * far, HEAD),
        (TOKENS, W, 0 * HEAD),
        (TOKENS, W, 1e3 * HEAD),
        (TOKENS, W, 1e60 * HEAD),
        (TOKENS, W, 1e-60 * HEAD),
        (Tokens(X, queries="first", labels=Y, mask=single(1)), W, HEAD),
        (Tokens(TWINS, queries="first", labels=Y), W, HEAD),
        (Tokens(X.astype(np.float32), queries="first", labels=Y), W.astype(np.float32), HEAD),
        (Tokens(X * 1e60, queries=X[:, 0] * 1e60, labels=Y), W * 1e-120, HEAD),
        (Tokens(X * 1e-60, queries=X[:, 0] * 1e-60, labels=Y), W * 1e120, HEAD),
        (Tokens(X * 1e-60, queries=X[:, 0] * 1e-60, labels=Y), W * 1e-180, HEAD),
        (Tokens(X, queries=X[:, 0] * [[1e60], [1.0], [1e-60]], labels=Y), W, HEAD),
    ]
    for tokens, given, head in cases:
        proof = proof_of_convergence(tokens, given, head=head, optimizer=optimizer, loss=loss)
        assert proof.proved or proof.message.startswith("not proved: ")
        assert proof.proved == bool(proof.verify())
        repr(proof), proof.to_dict()


@pytest.mark.parametrize("scale", [2.0**200, 2.0**-200, 3e50, 1e-55])
def test_the_scale_of_tokens_does_not_matter(scale):
    """Tokens s times as large, W and its step as much smaller: the same proof."""
    r = run("sphere", 1, steps=900)
    given = np.ascontiguousarray(r.W[-1])
    plain = r.judge.prove(given)
    tokens = Tokens(r.tokens.X * scale, queries=r.tokens.queries, labels=r.tokens.labels)
    proof = proof_of_convergence(tokens, given / scale, head=r.v / scale, lr=0.1 / scale)
    assert plain.proved and proof.proved and proof.verify()
    assert proof.constants["rho"] == pytest.approx(plain.constants["rho"], rel=1e-6)
    exact = np.frexp(scale)[0] == 0.5  # a power of two changes no digit, and no choice of D
    close = 1e-12 if exact else 0.1
    assert proof.constants["D"] * scale == pytest.approx(plain.constants["D"], rel=close)


@pytest.mark.parametrize("lr", [1e-200, 0.1, 1e200])
def test_far_out_every_proof_passes_its_recheck(lr):
    """Where e^−margin underflows, longest steps are finite and no more than is proved."""
    r = run("sphere", 1, steps=900)
    ray = r.judge.prove(np.ascontiguousarray(r.W[-1])).direction
    judge = prover(r.tokens, head=r.v, optimizer="gd", lr=lr)
    for size in (1e2, 1e6, 1e12, 1e100):
        for theorem in ("cone", "level"):
            proof = judge.prove(size * ray, explain=False, only=theorem)
            if proof.proved:
                assert proof.verify(), proof.verify().reason
                assert lr <= proof.longest_step < np.inf


def test_messages_do_not_say_what_is_not_known():
    """A pull that underflows has no known sign: the row is not said to score more."""
    proof = proof_of_convergence(TOKENS, W, head=2e3 * HEAD)
    assert not proof.proved
    kept = Case.of(TOKENS, HEAD, "logistic").at(proof.selection)
    assert "scores more" not in proof.message or (kept.gap < 0).any()


def test_exact_ties():
    """A tie of scores off the tight rows is no obstacle; a tight one is said to be one."""
    keys = np.array([[[1.0, 0.0], [0.0, 0.0], [-2.0, 0.0]]])
    for second, proved in ((0.5, True), (1.0, False)):
        values = np.array([[[1.0, 0.0], [second, 0.0], [1.0, 0.0]]])
        tokens = Tokens(values, keys=keys)
        proof = proof_of_convergence(tokens, [40.0, 0.0], head=[1.0, 0.0], lr=0.01)
        assert proof.proved == proved, proof.message
        if proved:
            assert proof.verify() and not members(proof, 100).broken
        else:
            assert "as much as" in proof.message


@pytest.mark.parametrize("turn", [0.0, 1e-15, 1e-12, 1e-8, 1e-5])
def test_dependent_tight_rows(turn):
    """Four tight rows in two dimensions, exactly or nearly dependent: judged, never wrongly."""
    keys = np.zeros((1, 5, 2))
    keys[0, 1:] = -np.array([[1.0, 1.0], [1.0, 1.0 + turn], [1.0, -1.0], [1.0, -1.0 - turn]])
    values = np.zeros((1, 5, 2))
    values[0, 0] = [1.0, 0.0]
    values[0, 2] = [0.3, 0.0]
    tokens = Tokens(values, keys=keys)
    for R in (30.0, 1e3, 1e5):
        for side in (0.0, 0.02):
            given = np.array([R, side * R])
            proof = proof_of_convergence(tokens, given, head=[1.0, 0.0], lr=0.01)
            if proof.proved:
                assert proof.verify() and not members(proof, 100).broken
                direction = proof.direction.ravel() / np.linalg.norm(proof.direction)
                assert abs(direction[1]) < 1e-4

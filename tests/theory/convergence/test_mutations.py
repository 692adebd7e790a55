"""What must fail does: a slip in any part of a proof is seen on members, or by the recheck."""

import inspect
import textwrap
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from attsvm import Tokens, proof_of_convergence
from attsvm.theory.convergence import prover, rows, theorems
from attsvm.theory.convergence.prover import prover as made
from tests.theory.convergence.cases import run
from tests.theory.convergence.members import members
from tests.theory.convergence.reference import Case

NGD = (("sphere", 15, {}), ("sphere", 0, {"lr": 0.2}), ("masked", 3, {}), ("prompt", 3, {}))
GD = (("sphere", 0, {"optimizer": "gd", "lr": 50.0, "steps": 20000}),)

# The function, and for each slip what stands there and what replaces it; "cone" and "level" ask for
# that theorem.
SLIPS = {
    (rows.TokenPull, "error"): {
        "the error is dropped": ("part = part +", "part = 0 * part + 0 *"),
        "the error lacks the softmax": ("part = part + slope", "part = part - 0.9 * slope"),
        "the error has a flipped sign": ("* size) * moved", "* -size) * moved"),
    },
    (rows.TokenPull, "of"): {
        "a pull has a flipped sign": ("* y[inputs]\n", "* abs(y[inputs])\n"),
        "all pulls are good": ("* gap /", "* Interval(abs(gap.lo), abs(gap.hi)) /"),
    },
    (theorems, "measure_tube"): {
        "bad rows are dropped": ("b = np.where(bad,", "b = 0 * np.where(bad,"),
        "bad rows are taken at P⋆": ("far = (level + reach)", "far = (level + 0 * reach)"),
        "Ẑ is too large": ("- here.at - here.log_Z", "- here.at - here.log_Z - 0.05"),
        "good rows off the tight ones are forgotten": (
            "Theta = total(theta * length)",
            "Theta = 0 * total(theta * length)",
        ),
        "tails are forgotten": ("length = (tail +", "length = (0 * tail +"),
        "L is too small": ("np.full(len(D), frame.smooth)", "np.full(len(D), 0.02 * frame.smooth)"),
        "the step is forgotten": (
            "np.broadcast_to(steps.size,",
            "np.broadcast_to(0.1 * steps.size,",
        ),
        "‖g‖ is too small": ("pi + beta / float(N.lo)) * _GROW", "0 * pi) * 0.5"),
        "margins are those of the middle": ("here.at - reach", "here.at - 0.5 * reach"),
        "D² is not compared": ("(need <= down(D * D))", "(need <= 9 * down(D * D))"),
        "mode B without its rest": (
            "(Pi + total(theta * across * length))",
            "(Pi + 0 * total(theta * across * length))",
        ),
    },
    (rows, "verify_active"): {
        "slack is rounded up": (
            "slack = Interval(low, high)",
            "slack = Interval(low * 1.05, high * 1.05)",
        ),
        "‖Ŵ‖ is too short": ("square.sqrt(), slack", "square.sqrt() * 0.99, slack"),
        "rows are too short across": (
            "slack, squares.sqrt(), across)",
            "slack, squares.sqrt(), across * 0.9)",
        ),
    },
    (theorems, "locate"): {
        "the offset is too small": ("square.sqrt(), shift)", "square.sqrt() * 0.9, shift)"),
        "ρ is too large": ("return Position(rho,", "return Position(rho * 1.01,"),
    },
    (theorems, "level_point"): {
        "P⋆ is elsewhere": ("tau = log_ratio - log_Z", "tau = (log_ratio - log_Z) * 0.9"),
    },
    (theorems, "measure_cone"): {
        "cone: margins too large": ("margin = (r * least)", "margin = 1.5 * (r * least)"),
        "cone: ε is dropped": (
            "slope = down(1 - beta - c * (top + epsilon)",
            "slope = down(1 - beta - c * (top + 0 * epsilon)",
        ),
    },
    (theorems, "cosines"): {
        "cone: W need not be in it": ("c) * (1 - 1e-15)", "2.0) + 0.3 * (1 - c)"),
    },
    (prover.Prover, "_longest"): {
        "cone: steps are not bounded": ("return low", "return 1e4 * low"),
    },
    (theorems, "measure_level"): {
        "level: curvature too small": (".max()) + 1e-9", ".max()) - 6.0"),
        "level: excess too small": ("* _LOOSE)\n    falls", "* 0.9)\n    falls"),
        "level: any level will do": ("excess < allowed and", "excess < 1e3 * allowed and"),
    },
}


@cache
def trained(name):
    """W of a run around its first proof, and what it was a run of."""
    kind, seed, options = (*NGD, *GD)[name]
    r = run(kind, seed, **options)
    first = r.first()
    assert first is not None
    at = [max(first[0] - k, 0) for k in (12, 8, 4)] + [first[0], min(first[0] + 6, len(r.W) - 1)]
    W = [np.ascontiguousarray(r.W[k]) for k in at]
    if first[1].direction is not None and options.get("optimizer") == "gd":
        W.append(W[-1] + 40 * first[1].direction)
    return r, W


def far(r, started):
    """W of large norms near the ray, some of them nearer to it than runs come."""
    ray = r.judge.prove(started[-1]).direction
    ray = ray / np.linalg.norm(ray)
    shake = np.random.default_rng(0).standard_normal(ray.shape)
    shake = shake / np.linalg.norm(shake)
    near = [R * (ray + turn * shake) for R in (1e3, 1e4) for turn in (1e-3, 1e-2, 4e-2)]
    return near


def seen(theorem=None, lr=None):
    """Whether a check on members sees that something is wrong."""
    names = {None: range(len(NGD) + 1), "cone": (1, 3), "level": (len(NGD),)}[theorem]
    for name in names:
        r, started = trained(name)
        lr = 1e-3 if theorem == "level" else lr or r.judge.lr
        judge = made(r.tokens, head=r.v, optimizer=r.judge.optimizer, lr=lr, loss=r.judge.loss)
        if theorem == "cone":
            started = far(r, started)
        if theorem == "level":
            started = [size * r.W[-1] for size in (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)]
        for W in started:
            proof = judge.prove(np.ascontiguousarray(W), explain=False, only=theorem)
            if not proof.proved:
                continue
            with np.errstate(all="ignore"):
                if members(proof, 90).broken:
                    return True
    return theorem is None and not pulls_hold()


def pulls_hold():
    """Whether limits and errors of the pulls are those of the reference."""
    for name, loss, grown in ((2, "logistic", 1.0), (3, "exponential", 5.0)):
        r, started = trained(name)
        judge = made(r.tokens, head=grown * r.v, loss=loss)
        alpha = judge.selected(started[-1])
        found = judge.geometry(alpha).rows
        chosen = Case.of(r.tokens, grown * r.v, loss).at(alpha)
        if not np.allclose(found.pull.limit.mid, chosen.limit, rtol=1e-9):
            return False
        rng = np.random.default_rng(0)
        m = 4 + rng.exponential(3.0, (200, found.count)) * rng.integers(0, 2, (200, found.count))
        error = found.pull.error(np.exp(-m))
        if not (np.abs(chosen.off(m)) <= error * (1 + 1e-12)).all():
            return False
    return True


def test_nothing_is_seen_where_nothing_is_wrong():
    assert not seen()
    assert not seen("cone")
    assert not seen("level")


@pytest.mark.parametrize(
    ("at", "slip"), [pytest.param(at, x, id=x) for at, slips in SLIPS.items() for x in slips]
)
def test_a_slip_is_seen(at, slip, monkeypatch):
    (where, name), (old, new) = at, SLIPS[at][slip]
    function = inspect.getattr_static(where, name)
    plain = function.__func__ if isinstance(function, classmethod) else function
    source = textwrap.dedent(inspect.getsource(plain))
    assert source.count(old) == 1, f"{name} no longer has {old!r}"
    space = dict(plain.__globals__)
    exec(compile(source.replace(old, new), f"slip in {name}", "exec"), space)
    monkeypatch.setattr(where, name, space[name])
    for module in (prover, theorems):
        if getattr(module, name, None) is plain:
            monkeypatch.setattr(module, name, space[name])
    theorem = slip.split(":")[0] if ":" in slip else None
    if not seen(theorem):
        # The cone that is chosen is the one with the most room: look at the narrowest as well.
        monkeypatch.setitem(space, "_ANGLES", 1)
        monkeypatch.setattr(theorems, "_ANGLES", 1)
        assert theorem == "cone" and seen(theorem, 1e-6)


def test_longer_steps_are_refused():
    """The recheck accepts the longest step, and nothing two per cent above it."""
    for name in range(len(NGD) + len(GD)):
        r, started = trained(name)
        proof = r.judge.prove(started[-1])
        assert proof.proved and proof.verify()
        assert not replace(proof, longest_step=proof.longest_step * 1.02).verify()
        assert not replace(proof, longest_step=proof.lr / 2).verify()
        for size in (np.inf, np.nan):
            assert not replace(proof, longest_step=size).verify()
        assert not replace(proof, float_steps=10**15).verify()


def test_longest_steps_of_the_cone_are_judged():
    r, started = trained(3)
    proof = r.judge.prove(far(r, started)[-2], only="cone")
    assert proof.verify(), proof.verify().reason
    for change in (
        {"longest_step": np.inf},
        {"longest_step": np.nan},
        {"longest_step": proof.longest_step * 1.02},
        {"float_steps": 5},
        {"W": proof.W * 0.5},
        {"lr": proof.longest_step * 1.02},
        {"direction": -proof.direction},
    ):
        assert not replace(proof, **change).verify(), change


def test_other_data_are_refused():
    """The proof of one W, head, loss, step or selection is none for another; constants count."""
    r, started = trained(0)
    proof = r.judge.prove(started[-1])
    other = proof.selection.copy()
    other[0] = (other[0] + 1) % 8
    for change in (
        {"W": proof.W * 0.9},
        {"head": -proof.head},
        {"loss": "linear"},
        {"loss": "squared"},
        {"optimizer": "gd"},
        {"optimizer": "adam"},
        {"lr": proof.longest_step * 1.02},
        {"lr": -0.1},
        {"selection": other},
        {"theorem": "cone"},
        {"theorem": "level"},
        {"theorem": None},
        {"tokens": Tokens(proof.tokens.X * 1.01, queries="first", labels=proof.tokens.labels)},
        {"direction": proof.direction * 1.01},
        {"direction": None},
        {"witness": {}},
        {"witness": {**proof.witness, "D": proof.witness["D"] * 4}},
        {"witness": {**proof.witness, "D": proof.witness["D"] * 0.5}},
        {"witness": {**proof.witness, "errors": -1.0}},
        {"witness": {**proof.witness, "tight": proof.witness["tight"][1:]}},
        {"witness": {**proof.witness, "tight": proof.witness["tight"][[0, 0]]}},
        *(
            {"constants": {**proof.constants, name: proof.constants[name] * 1.001}}
            for name in ("D0", "rho", "beta", "rate", "growth", "margin", "need")
        ),
    ):
        assert not replace(proof, **change).verify(), change


def test_a_tight_better_row_is_never_proved():
    """The row that pulls W away is tight: no norm and no direction near the limit is proved."""
    X = np.array([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    tokens = Tokens(X)
    for v in ([1.0, 0.5], [1.0, 1.0]):  # token 1 scores more than token 0, or as much
        for R in (10.0, 1e3, 1e6):
            for side in (0.0, 1e-3, -1e-3):
                W = R * np.array([-1.0 + side, 1.0])
                for optimizer in ("ngd", "gd"):
                    proof = proof_of_convergence(tokens, W, head=v, optimizer=optimizer, lr=0.01)
                    assert not proof.proved
                    assert proof.blocked.row == (0, 1)

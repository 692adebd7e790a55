"""Statements about where gradient descent on a prompt ends, and how it gets there."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.api import train
from attsvm.experiments.statements import facts
from attsvm.experiments.statements.facts import Exact, written
from attsvm.experiments.statements.statement import (
    P0,
    Confirmation,
    Field,
    Instance,
    NoProof,
    Space,
    Statement,
    V,
    X,
    Y,
)
from attsvm.experiments.studies.shared.plain_descent import loss_and_pull, smoothness
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.convergence.prover import prover

# A start that is this near to the direction of its selection is worth a proof.
_NEAR = 0.8


# ---------------------------------------------------------------- proofs at the start


def start_proof(one: Instance) -> ConvergenceProof:
    """The proof, at the start itself, of plain descent with every step up to 1/L_W."""
    lr = 1 / smoothness(one.tokens, one["v"])
    made = prover(one.tokens, head=one["v"], optimizer="gd", lr=lr)
    return made.prove(one["p0"][:, None], explain=False)


def _strays(one: Instance) -> float:
    """Positive where descent is proved at its start to end at other tokens than the best.

    Else how far it is from that, negative: the cosine of the start to the direction of the tokens
    it selects, less 1, where these are locally optimal.
    """
    W = one["p0"][:, None]
    h = facts.logits(one, W)
    alpha = tuple(h.argmax(axis=1).tolist())
    if not facts.lead(one, alpha, h) > 0 or alpha == one.best or not facts.separable(one, alpha):
        return -3.0
    near = facts.cosine(W, facts.facts_of(one, alpha).W)
    if not facts.locally_optimal(one, alpha):
        return near - 3.0
    if near < _NEAR:
        return near - 1.0
    return 1.0 if start_proof(one).proved else near - 1.0 - 1e-3


def _confirm_stray(one: Instance) -> Confirmation:
    """The proof at the start, and that it was verified from its witness alone."""
    proof, best = start_proof(one), one.best
    kept = tuple(int(t) for t in proof.selection) if proof.proved else best
    if kept == best:
        raise NoProof(proof.message)
    near = facts.cosine(facts.facts_of(one, kept).W, facts.facts_of(one, best).W)
    step = 1 / smoothness(one.tokens, one["v"])
    return Confirmation(
        bool(proof.verify().ok) and proof.longest_step >= step,
        f"from the start {_shown(one['p0'])} plain descent with every step up to 1/L_W = "
        f"{step:.3g} is proved ({proof.theorem}) to keep the tokens {list(kept)} for ever, where "
        f"the best are {list(best)}; the cosine of the two directions is {near:.3f}",
    )


def _shown(p: Floats) -> str:
    """A point as simple fractions where it has such entries, else rounded."""
    if (p * 64 == np.round(p * 64)).all():
        return written(p)
    return "(" + ", ".join(f"{x:.6g}".replace("-", "−") for x in p) + ")"


def _moved(one: Instance, p: Floats) -> Instance:
    """The instance with another start."""
    return Instance({**one.arrays, "p0": p})


def _equal_scores(one: Instance) -> bool:
    """B.2, and the best tokens can be kept."""
    return facts.equal_others(one) and facts.keeps_best(one)


# ---------------------------------------------------------------- runs


def _run(one: Instance, optimizer: str, lr: float, steps: int, init: Any = "zero") -> Floats:
    """The last prompt (d,) of a run."""
    path = train(
        one.tokens,
        model="prompt",
        head=one["v"],
        optimizer=optimizer,
        lr=lr,
        steps=steps,
        init=init,
    )
    return np.asarray(path.weights["p"][-1, 0])


# Steps of normalized descent, which follows the flow; a run that is not there yet goes on.
_STEPS = (400, 4000, 40000)


def _assumption_d(one: Instance) -> bool:
    """Unique best tokens, B.1, and D: every other selection has a tight best token."""
    if not facts.all_tight(one):
        return False
    best = one.best
    for alpha in facts.selections(one):
        if alpha == best or not facts.separable(one, alpha):
            continue  # nothing tends to a selection that cannot be kept
        wrong = [i for i, (a, b) in enumerate(zip(alpha, best, strict=True)) if a != b]
        if not any(facts.facts_of(one, alpha).tight[i, best[i]] for i in wrong):
            return False
    return True


def _flow_end(one: Instance, steps: int) -> Floats:
    """Where short steps of normalized descent lead the start."""
    return _run(one, "ngd", 0.05, steps, {"p": one["p0"][None]})


def _unattended(one: Instance) -> float:
    """½ less the least attention on a best token, at the end of a run that follows the flow."""
    best, least = one.best, 0.0
    for steps in _STEPS:
        h = one["X"] @ _flow_end(one, steps)
        s = np.exp(h - h.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        least = float(s[np.arange(len(s)), list(best)].min())
        if least > 0.5:
            break
    return 0.5 - least


def _confirm_unattended(one: Instance) -> Confirmation:
    """A proof, at the start or at the end of the run, that descent ends elsewhere."""
    if start_proof(one).proved:
        return _confirm_stray(one)
    return _confirm_stray(_moved(one, _flow_end(one, _STEPS[-1])))


# Steps of the run that follows the flow, and of plain descent, until it is proved.
_FLOW, _PLAIN = 1500, (3000, 30_000, 300_000)


def _first_gradient_separates(one: Instance) -> bool:
    """Unique best tokens that can be kept, and −∇L(0) separates them."""
    if not facts.keeps_best(one):
        return False
    _, pull = loss_and_pull(one.tokens, one["v"], np.zeros((one["X"].shape[2], 1)))
    return facts.lead(one, one.best, one["X"] @ pull[:, 0]) > 1e-12


def _behind(one: Instance) -> float:
    """How far some best token is behind after a run that follows the flow from 0."""
    p = _run(one, "ngd", 0.02, _FLOW)
    ahead = facts.lead(one, one.best, one["X"] @ p)
    return -min(ahead, 0.0) / float(np.linalg.norm(p)) - 1e-6


def _confirm_behind(one: Instance) -> Confirmation:
    """Plain descent from 0 with η = 1/L_W until a proof says that it ends elsewhere.

    The run up to the proof is in sixty digits where it is short, in floats where it is long.
    """
    lr = 1 / smoothness(one.tokens, one["v"])
    for steps in _PLAIN:
        try:
            found = _confirm_stray(_moved(one, _run(one, "gd", lr, steps)))
        except NoProof:
            continue
        if steps == _PLAIN[0]:
            found = _confirm_stray(_moved(one, _counted_out(one, lr, steps)))
        said = f"after {steps} steps of 1/L_W from 0: {found.says}"
        return Confirmation(found.proved, said)
    raise NoProof("no proof along the run")


def _counted_out(one: Instance, lr: float, steps: int) -> Floats:
    """Where plain descent from 0 is after so many steps, computed in sixty digits."""
    with facts.precision():
        W = facts.decimals(np.zeros((one["X"].shape[2], 1)))
        for _ in range(steps):
            W = W + Decimal(lr) * facts.look_at(one, W).pull
    return np.asarray(W[:, 0].astype(np.float64))


# ---------------------------------------------------------------- the correlation

# The step, a power of two, and how many are followed.
_STEP, _COUNT = 0.125, 60
# Two runs, of 60 and of 90 digits, must agree to this.
_AGREE = Decimal("1e-40")


def _falls(one: Instance) -> list[float]:
    """By how much corr(W(k), W^mm) of normalized descent from W = 0 falls, k = 2, 3, …"""
    goal = facts.facts_of(one, one.best).W
    W: Floats = np.zeros(goal.shape)
    found: list[float] = []
    for _ in range(_COUNT):
        _, pull = loss_and_pull(one.tokens, one["v"], W)
        size = float(np.linalg.norm(pull))
        if size == 0:
            break
        W = W + _STEP * pull / size
        found.append(facts.cosine(W, goal))
    return [a - b for a, b in pairwise(found)]


def _largest_fall(one: Instance) -> float:
    """The largest fall in one step."""
    return max(_falls(one), default=-1.0)


def _walk(one: Instance, goal: Exact, steps: int, digits: int) -> Exact:
    """The correlations of the first steps in so many digits."""
    with facts.precision(digits):
        D = facts.decimals(goal)
        W, out = 0 * D, []
        for _ in range(steps):
            pull = facts.look_at(one, W).pull
            W = W + Decimal(_STEP) * pull / (pull**2).sum().sqrt()
            out.append((W * D).sum() / ((W**2).sum() * (D**2).sum()).sqrt())
    return np.array(out)


def _confirm_fall(one: Instance) -> Confirmation:
    """The fall in 60 and in 90 digits, W^mm in rationals."""
    falls = _falls(one)
    if not falls or max(falls) <= 0:
        raise NoProof("the correlation does not fall")
    found = facts.exact_solution(one, one.best)
    if not facts.equal_others(one) and not found.tight.all():
        raise NoProof("neither B.1 nor B.2 holds exactly")
    last = int(np.argmax(falls)) + 2
    short, long = (_walk(one, found.matrix.fractions(), last, digits) for digits in (60, 90))
    apart = abs(short - long).max()
    return Confirmation(
        apart < _AGREE < long[-2] - long[-1],
        f"step {last} of normalized descent from 0 with η = {_STEP} lowers the correlation from "
        f"{float(long[-2]):.9f} to {float(long[-1]):.9f}; runs of 60 and 90 digits agree to "
        f"{float(apart):.0e}",
    )


_FROM_START = (X, V, Y, Field("p0", ("d",), scale=4.0))

STATEMENTS = (
    Statement(
        "equal-scores-one-input",
        says="Theorem 4 of v1 for n = 1, where it stands: equal scores of the others, any start, "
        "plain descent with a step of at most 1/L_W tends to W^mm.",
        kind="theorem",
        space=Space({"n": (1, 1), "T": (2, 4), "d": (1, 3)}, _FROM_START),
        premises=_equal_scores,
        violation=_strays,
        confirm=_confirm_stray,
        claims=("B.equal-scores-global",),
        proves="a proof of convergence, in intervals, at the start itself",
    ),
    Statement(
        "equal-scores",
        says="If the tokens of an input but its best share one score and the best tokens can be "
        "kept, plain descent with a step of at most 1/L_W tends to W^mm from any starting point "
        "(v1, Theorem 4).",
        kind="false",
        space=Space({"n": (1, 3), "T": (2, 2), "d": (1, 2)}, _FROM_START),
        premises=_equal_scores,
        violation=_strays,
        confirm=_confirm_stray,
        claims=("B.equal-scores-global",),
        proves="a proof of convergence, in intervals, at the start itself",
    ),
    Statement(
        "over-parameterized",
        says="If every token but the best is tight (B.1) and every other selection that can be "
        "kept has an input whose best token is tight there (D), gradient descent tends to W^mm of "
        "the best tokens from every start (v1, conjecture 5.2; hunted along the normalized flow).",
        kind="conjecture",
        space=Space(
            {"n": (1, 3), "T": (2, 3), "d": (1, 4)},
            (X, V, Y, P0),
            fits=lambda s: s["d"] >= s["n"],
        ),
        premises=_assumption_d,
        violation=_unattended,
        confirm=_confirm_unattended,
        claims=("B.conjecture",),
        proves="a proof of convergence to other tokens; none can exist under D with strict scores",
        block=50,
    ),
    Statement(
        "first-gradient",
        says="If −∇L(0) separates the best token of every input from each other one, plain descent "
        "from 0 with steps of 1/L_W tends to W^mm of the best tokens (v1, Theorem 6, with short "
        "first steps).",
        kind="conjecture",
        space=Space({"n": (2, 3), "T": (2, 2), "d": (2, 3)}, (X, V)),
        premises=_first_gradient_separates,
        violation=_behind,
        confirm=_confirm_behind,
        claims=("B.initial-gradient-condition",),
        proves="the run in floats (in sixty digits if short), then a proof of convergence in "
        "intervals",
        block=100,
    ),
    Statement(
        "monotone-correlation",
        says="Under B.1 or B.2, along normalized descent from W = 0 with steps of 1/8 the "
        "correlation with W^mm of the best tokens never falls.",
        kind="conjecture",
        space=Space({"n": (1, 2), "T": (2, 3), "d": (1, 2)}, (X, V)),
        premises=facts.theorem_3,
        violation=_largest_fall,
        confirm=_confirm_fall,
        proves="the run in 60 and in 90 digits against the rational solution",
        block=100,
    ),
)

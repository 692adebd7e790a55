"""Where plain descent ends, for the search and for the proof; the pull of the loss in floats."""

from __future__ import annotations

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.parts.facts import (
    best_tokens,
    facts_of,
    locally_optimal,
    logits,
    point,
)
from attsvm.experiments.statements.parts.rationals import written
from attsvm.experiments.statements.statement import Confirmation, Instance
from attsvm.experiments.studies.shared.plain_descent import loss_and_pull, smoothness
from attsvm.theory.convergence import ConvergenceProof
from attsvm.theory.convergence.prover import prover

# A start that is this near to the direction of its selection is worth a proof.
_NEAR = 0.8


def cosine(A: Floats, B: Floats) -> float:
    """⟨A, B⟩/(‖A‖‖B‖), 0 where one is zero."""
    size = float(np.linalg.norm(A) * np.linalg.norm(B))
    return float((A * B).sum()) / size if size > 0 else 0.0


def start_proof(one: Instance, name: str = "p0") -> ConvergenceProof:
    """The proof, at the start itself, of plain descent with every step up to 1/L_W."""
    made = prover(
        one.tokens, head=one["v"], optimizer="gd", lr=1 / smoothness(one.tokens, one["v"])
    )
    return made.prove(point(one, name), explain=False)


def strays(one: Instance, name: str = "p0") -> float:
    """Positive where descent is proved at its start to end at other tokens than the best.

    Else how far it is from that, negative: the cosine of the start to the direction of the tokens
    it selects, less 1, where these are locally optimal.
    """
    best, W = best_tokens(one), point(one, name)
    h = logits(one, W)
    top = h.max(axis=1, keepdims=True)
    if best is None or ((h == top).sum(axis=1) > 1).any():
        return -3.0
    alpha = tuple(int(a) for a in h.argmax(axis=1))
    wrong = int((np.array(alpha) != best).sum())
    facts = facts_of(one, alpha) if wrong else None
    if facts is None:
        return -3.0
    near = cosine(W, facts.W)
    if not locally_optimal(one, alpha, facts):
        return near - 3.0
    if near < _NEAR:
        return near - 1.0
    return 1.0 if start_proof(one, name).proved else near - 1.0 - 1e-3


def confirm_stray(one: Instance, name: str = "p0") -> Confirmation:
    """The proof at the start, and that it was verified from its witness alone."""
    proof, best = start_proof(one, name), best_tokens(one)
    if best is None or not proof.proved or (proof.selection == best).all():
        return Confirmation(False, "proof of convergence", proof.message)
    checked = bool(proof.verify().ok)
    kept = [int(t) for t in proof.selection]
    ends, right = facts_of(one, kept), facts_of(one, best)
    if ends is None or right is None:
        return Confirmation(False, "proof of convergence", "the best tokens are not separable")
    step = 1 / smoothness(one.tokens, one["v"])
    return Confirmation(
        checked and proof.longest_step >= step,
        "proof of convergence",
        f"from the start {_shown(point(one, name))} plain descent with every step up to "
        f"1/L_W = {step:.3g} is proved ({proof.theorem}) to keep the tokens {kept} for ever, where "
        f"the best are {[int(t) for t in best]}; the cosine of the two directions is "
        f"{cosine(ends.W, right.W):.3f}",
        {"theorem": str(proof.theorem), "longest step": f"{proof.longest_step:.6g}"},
    )


def _shown(W: Floats) -> str:
    """A point as simple fractions where it has such entries, else rounded."""
    flat = W.ravel()
    if (flat * 64 == np.round(flat * 64)).all():
        return written(flat)
    return "(" + ", ".join(f"{x:.6g}".replace("-", "−") for x in flat) + ")"


def descent_along(one: Instance, W: Floats, D: Floats) -> float:
    """−⟨∇L(W), D⟩ of the logistic loss, as a share of ‖∇L‖‖D‖."""
    _, pull = loss_and_pull(one.tokens, one["v"], W)
    return cosine(pull, D)


__all__ = [
    "confirm_stray",
    "cosine",
    "descent_along",
    "loss_and_pull",
    "smoothness",
    "start_proof",
    "strays",
]

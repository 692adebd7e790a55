"""Self-test: no multipliers prove more than some W attains, in the bounds that users read."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.experiments.statements.parts.rationals import fractions
from attsvm.experiments.statements.statement import Confirmation, Field, Instance, Space, Statement
from attsvm.problem.problem import Problem
from attsvm.solvers.solve import certify


def _make(drawn: dict[str, Floats]) -> dict[str, Floats]:
    """λ ≥ 0, one for each token but the first of an input."""
    return drawn | {"multipliers": abs(drawn["multipliers"][:, 1:]).ravel()}


def _exact(one: Instance) -> tuple[list[Fraction], Fraction, Fraction]:
    """(margins of W, ‖W‖², ‖A*λ‖²) in rationals, of the prompt that keeps the first tokens."""
    X, W, lam = one["X"], fractions(one["p0"]), fractions(one["multipliers"])
    rows = [fractions(x[0] - t) for x in X for t in x[1:]]
    margins = [sum((a * b for a, b in zip(r, W, strict=True)), Fraction(0)) for r in rows]
    total = [
        sum((l * r[j] for l, r in zip(lam, rows, strict=True)), Fraction(0)) for j in range(len(W))
    ]
    return margins, sum((w * w for w in W), Fraction(0)), sum((t * t for t in total), Fraction(0))


def premises(one: Instance) -> bool:
    """W keeps the first tokens, and Σ λ > 0."""
    margins, _, _ = _exact(one)
    return min(margins) > 0 and bool(one["multipliers"].any())


def violation(one: Instance) -> float:
    """lower/upper − 1 of the certificate of W and λ."""
    found = certify(
        Problem.of(one.tokens, [0] * len(one["X"])),
        "frobenius",
        one["p0"][:, None],
        one["multipliers"],
    )
    if not np.isfinite(found.upper) or not np.isfinite(found.lower):
        return 1.0
    return float(found.lower / found.upper) - 1


def confirm(one: Instance) -> Confirmation:
    """(Σλ)² min(margin)² ≤ ‖W‖²‖A*λ‖² in rationals."""
    margins, size, dual = _exact(one)
    left = (sum(fractions(one["multipliers"]), Fraction(0)) * min(margins)) ** 2
    return Confirmation(
        left > size * dual, "rationals", f"{left} against {size * dual} by Cauchy and Schwarz"
    )


STATEMENT = Statement(
    "weak-duality",
    title="No multipliers prove more than a W attains",
    says="(Σ λ)/‖Σ λ_k Δ_k‖ ≤ ‖W‖/min margin for every λ ≥ 0 and every W with positive margins: "
    "lower ≤ upper in every certificate (a self-test of attsvm.certify).",
    kind="theorem",
    space=Space(
        {"n": (1, 2), "T": (2, 3), "d": (1, 3)},
        (Field("X", ("n", "T", "d")), Field("p0", ("d",)), Field("multipliers", ("n", "T"))),
        make=_make,
    ),
    premises=premises,
    violation=violation,
    confirm=confirm,
    proves="rationals",
    tolerance=0.0,
)

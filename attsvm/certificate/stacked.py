"""The certificates of a stack of problems of one size, judged at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attsvm._utils.arrays import Bools, Floats
from attsvm.certificate.bounds import LEAST_MARGIN, above, below, margin_error, measure
from attsvm.certificate.certificate import Certificate, Shown, make_certificate
from attsvm.certificate.certify import PLAIN, certify
from attsvm.norms import Norm, norm_of
from attsvm.problem.problem import SMALLEST_ROW, Problem
from attsvm.problem.rows import StackRows


def certify_stack(
    problems: Sequence[Problem],
    norm: str | Norm,
    W: Floats,
    multipliers: Floats,
    *,
    rows: StackRows | None = None,
    tol: float | None = None,
) -> list[Certificate]:
    """The Certificates of a stack of problems of one size, all without ties and with b > 0.

    W (B, d, dq), multipliers (B, m), rows the problems' margins if they are at hand. The same
    bounds as `certify`, in one pass; what has no feasible W, or lies near the ends of the float
    range, is handed to `certify` itself.
    """
    geometry = norm_of(norm)
    goal = geometry.tolerance if tol is None else tol
    shape = problems[0].shape
    rows = StackRows.of(problems) if rows is None else rows
    lam = np.fmax(multipliers, 0.0)
    found = measure(rows, lam, W, margin_error(shape))
    worth, size, used, worst = found.sums.T
    G = found.G
    square = np.einsum("bij,bij->b", W, W)
    # What is not plain is judged alone, and its numbers are kept from the others' way.
    plain: Bools = (PLAIN[0] < size) & (size < PLAIN[1]) & (worst > LEAST_MARGIN) & (worst < np.inf)
    plain &= (PLAIN[0] < square) & (square < PLAIN[1])
    plain &= rows.norms.min(axis=1, initial=np.inf) >= SMALLEST_ROW
    worst = np.where(plain, worst, 1.0)
    if not plain.all():
        worth, size = np.where(plain, worth, 0.0), np.where(plain, size, 1.0)
        G = _without(G, ~plain)
    low = below(geometry, shape, worth=worth, absolute=worth, size=size, used=used, G=G)
    high = above(geometry, shape, W if plain.all() else _without(W, ~plain), worst)
    scaled = W / worst[:, None, None]
    weights = lam / np.where(low.dual > 0, low.dual, 1.0)[:, None]
    none = np.empty(0)
    columns = zip(
        problems,
        scaled,
        weights,
        low.value.tolist(),
        high.tolist(),
        low.residual.tolist(),
        plain.tolist(),
        strict=True,
    )
    return [
        make_certificate(
            problem, geometry, matrix, share, none, Shown(lower, upper, residual), goal
        )
        if good
        else certify(problem, geometry, W[k], lam[k], tol=goal)
        for k, (problem, matrix, share, lower, upper, residual, good) in enumerate(columns)
    ]


def _without(stack: Floats, places: Bools) -> Floats:
    """The stack (B, d, dq) with zeros in these places (B,)."""
    return np.where(places[:, None, None], 0.0, stack)

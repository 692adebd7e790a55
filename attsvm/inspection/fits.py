"""Matrices fitted to a head's choices: by max margin, by mean difference, by cross-entropy.

Each sees the choices of some queries only, and is then asked for the choices of others. Selections
are almost always separable here (there are more parameters than rows): that a fit exists says
nothing, what it says of unseen queries does.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm.certificate import Certificate
from attsvm.errors import ConvergenceWarning
from attsvm.inspection.view import View
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve

# The certified gap that is asked for: fits are compared by their choices, not by their digits.
TOLERANCE = 1e-2
# The budget on each query where a fit is penalized, in units in which rows have length 1.
BUDGET = 10.0
# Steps of the cross-entropy fits at most; one that gains less than a share of 1e-4 is the last:
# choices do not change beyond it.
_STEPS, _FLAT = 60, 1e-4 / np.finfo(np.float64).eps


class SvmFit(NamedTuple):
    """A matrix (d, dq), and the certificate it came with; soft: no W met all rows."""

    W: Floats
    certificate: Certificate
    soft: bool


def tokens_of(view: View, chosen: Ints) -> Tokens:
    """The keys and queries of a View as Tokens.

    Keys that equal the chosen one in every feature are masked: no W tells them apart.
    """
    keys = view.keys.astype(np.float64)
    return Tokens(keys, queries=view.queries, mask=view.valid & ~twins(view, chosen))


def twins(view: View, chosen: Ints) -> Bools:
    """Which keys (n, T), other than the chosen one, have all its features."""
    same = np.empty(view.valid.shape, dtype=bool)
    for row, (keys, at) in enumerate(zip(view.keys, chosen, strict=True)):
        same[row] = (keys == keys[at]).all(axis=1)
        same[row, at] = False
    return same


def apart(view: View, chosen: Ints) -> Ints:
    """The numbers of the queries that have a key with other features than the chosen one."""
    return np.flatnonzero((view.valid & ~twins(view, chosen)).sum(axis=1) >= 2)


def circular(view: View, chosen: Ints) -> bool:
    """Whether queries with the same features put keys in an order that goes in a circle.

    Then no W makes these choices: along the circle the differences of keys sum to zero. So it is in
    the first layer, where all queries at the first token are the same, and a solve would be long.
    """
    wanted = view.valid & ~twins(view, chosen)
    groups: dict[bytes, list[int]] = {}
    for row, query in enumerate(view.queries):
        groups.setdefault(query.tobytes(), []).append(row)
    for rows in (rows for rows in groups.values() if len(rows) > 1):
        nodes: dict[bytes, int] = {}
        ends = []
        for row in rows:
            top, *others = (
                nodes.setdefault(view.keys[row, t].tobytes(), len(nodes))
                for t in (chosen[row], *np.flatnonzero(wanted[row]))
            )
            ends += [(top, other) for other in others if other != top]
        if not ends:
            continue
        graph = coo_array((np.ones(len(ends)), np.transpose(ends)), shape=(len(nodes),) * 2)
        parts = connected_components(graph, directed=True, connection="strong")[0]
        if parts < len(nodes):
            return True
    return False


def quietly(problem: Problem, norm: str | Norm, *, C: float | None = None) -> Certificate:
    """The certificate of a solve to TOLERANCE; what stops early says so in its bounds alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(problem, norm, tol=TOLERANCE, C=C)


def svm_fit(view: View, chosen: Ints) -> SvmFit:
    """The W of least Frobenius norm whose margins are 1; soft where no W has them."""
    problem = Problem.of(tokens_of(view, chosen), chosen)
    if not circular(view, chosen):
        best = quietly(problem, "frobenius")
        if best.W is not None:
            return SvmFit(best.W, best, False)
    size = float(np.mean(problem.row_norms**2))
    best = quietly(problem, "frobenius", C=BUDGET / size)
    W = np.zeros(problem.shape) if best.W is None else best.W
    return SvmFit(W, best, True)


def mean_difference(view: View, targets: Floats) -> Floats:
    """Σ_i (Σ_t s_it x_it − mean_t x_it) z_iᵀ for weights s (n, T): the first gradient step."""
    even = view.valid / view.valid.sum(axis=1, keepdims=True)
    moved = np.einsum("nt,ntd->nd", targets - even, view.keys.astype(np.float64))
    W: Floats = moved.T @ view.queries.astype(np.float64) / len(targets)
    return W


def cross_entropy(view: View, targets: Floats) -> Floats:
    """The W of min ½‖W‖² + C Σ_i H(s_i, softmax of X_i W z_i), in units in which rows are 1 long.

    targets s (n, T): 1 on the chosen key, or the head's own attention (the soft form).
    """
    keys, valid = view.keys.astype(np.float64), view.valid
    keys -= np.einsum("ntd,nt->nd", keys, valid / valid.sum(axis=1, keepdims=True))[:, None]
    keys[~valid] = 0.0
    # W acts on the queries' span alone, and the penalty keeps it there.
    basis, small = np.linalg.qr(view.queries.astype(np.float64).T)
    queries = small.T
    key_size = np.sqrt((keys**2).sum() / valid.sum())
    query_size = np.sqrt((queries**2).sum() / len(queries))
    size = float(key_size * query_size)
    if not size > 0:
        return np.zeros((keys.shape[2], view.queries.shape[1]))
    # Single precision reads half the memory, which is what a step takes its time for.
    keys, queries = (keys / key_size).astype(np.float32), queries / query_size
    shape = (keys.shape[2], queries.shape[1])

    def value(flat: Floats) -> tuple[float, Floats]:
        W = flat.reshape(shape)
        slopes = (queries @ W.T).astype(np.float32)
        logits = np.matmul(keys, slopes[:, :, None])[:, :, 0].astype(np.float64)
        logits[~valid] = -np.inf
        top = logits.max(axis=1, keepdims=True)
        p = np.exp(logits - top)
        total = p.sum(axis=1, keepdims=True)
        logits[~valid] = 0.0
        entropy = (np.log(total) + top)[:, 0] - (targets * logits).sum(axis=1)
        miss = np.matmul((p / total - targets).astype(np.float32)[:, None, :], keys)[:, 0, :]
        slope = W + BUDGET * (miss.T @ queries)
        return 0.5 * float((W**2).sum()) + BUDGET * float(entropy.sum()), slope.ravel()

    start = np.zeros(shape[0] * shape[1])
    found, _, _ = fmin_l_bfgs_b(value, start, m=5, maxiter=_STEPS, factr=_FLAT)
    W: Floats = found.reshape(shape) @ basis.T / size
    return W


def one_hot(view: View, chosen: Ints) -> Floats:
    """1 on the chosen key of each query, 0 elsewhere (n, T)."""
    out = np.zeros(view.valid.shape)
    out[np.arange(len(chosen)), chosen] = 1.0
    return out


def agreement_of(view: View, W: Floats, chosen: Ints) -> float:
    """The share of queries whose chosen key is also the one that W chooses.

    Keys with the same features count as one.
    """
    top, rows = logits_by(view, W).argmax(axis=1), np.arange(len(chosen))
    same = (view.keys[rows, top] == view.keys[rows, chosen]).all(axis=1)
    return float(((top == chosen) | same).mean())


def logits_by(view: View, W: Floats) -> Floats:
    """The logits (n, T) that W gives, −inf where a key is not valid."""
    slopes = view.queries.astype(np.float64) @ W.T
    logits = np.matmul(view.keys.astype(np.float64), slopes[:, :, None])[:, :, 0]
    return np.where(view.valid, logits, -np.inf)


def cosine_of(A: Floats | None, B: Floats | None) -> float:
    """The cosine of two matrices; nan where one is zero or missing."""
    if A is None or B is None:
        return np.nan
    size = float(np.linalg.norm(A) * np.linalg.norm(B))
    return float((A * B).sum() / size) if size > 0 else np.nan

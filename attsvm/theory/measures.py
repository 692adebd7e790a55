"""Measures of a run: how near it is to its limit, and what its matrices and attention look like.

Wherever matrices are taken they are an array (d, dq), a stack (..., d, dq) with the records first
(R, B, d, dq), a single column (d,), or a run (any object with a method `matrices`, such as a
Path). A target is a Certificate, a list of B Certificates for B instances, or an array.

Cosines and divergences are meaningful only where the least-norm solution is unique (Frobenius and
ℓp with 1 < p < ∞). For the others the margin share is the measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Protocol, runtime_checkable

import numpy as np

from attsvm._utils.arrays import Floats, numbers
from attsvm._utils.expected import expect, listed, number, positive
from attsvm.certificate import Certificate
from attsvm.certificate.bounds import above, margin_error, worst_margin
from attsvm.errors import BadTokens, Infeasible, NotConverged, Unsupported
from attsvm.norms import Norm, norm_of
from attsvm.norms.entrywise import power_norm
from attsvm.norms.matrix import singular

# Singular values below this share of the largest do not count to the rank.
RANK_SHARE = 1e-4
# Relative differences up to this are taken by the series of the divergence, which does not cancel.
_NEAR = 1e-2
_TERMS = 9


@runtime_checkable
class Run(Protocol):
    """What has a matrix for each record and instance.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0]]], labels=[1])
    >>> path = attsvm.train(tokens, model="prompt", head=[0.0, 1.0], steps=20)
    >>> isinstance(path, Run), path.matrices().shape
    (True, (21, 1, 2, 1))
    """

    def matrices(self) -> Floats:
        """The effective W of every record (R, B, d, dq)."""
        ...


Matrices = Run | Any
Target = Certificate | Sequence[Certificate] | Any


def correlation(W: Matrices, target: Target) -> Any:
    """⟨W, W*⟩ / (‖W‖_F ‖W*‖_F) of each matrix; nan for a zero matrix, which has no direction.

    >>> float(correlation([[1.0, 0.0], [0.0, 0.0]], [[3.0, 0.0], [0.0, 4.0]]))
    0.6
    """
    A, B = _pair(W, target)
    return np.clip(np.einsum("...ij,...ij->...", _unit(A, 2.0), _unit(B, 2.0)), -1.0, 1.0)[()]


def bregman(W: Matrices, target: Target, p: float) -> Any:
    """The directional divergence D(A/‖A‖_p, B/‖B‖_p) of the target A from each iterate B.

        D(A, B) = ψ(A) − ψ(B) − ⟨∇ψ(B), A − B⟩,    ψ = (1/p) Σ |·|^p

    At least 0, and 1 − correlation at p = 2. Taken entry by entry without the cancellation of the
    formula, so that small values keep their digits. nan for a zero matrix.

    Theory: the distance in which mirror descent's direction converges [julistiono2024mirror].

    >>> round(float(bregman([[1.0], [1.0]], [[1.0], [0.0]], 3.0)), 6)
    0.37004
    """
    p = number(p)
    if not 1 < p < np.inf:
        raise Unsupported(f"p is {p}: the divergence needs 1 < p < inf")
    B, A = _pair(W, target)
    a, b = np.broadcast_arrays(_unit(A, p), _unit(B, p))
    size = np.abs(b)
    plain = np.abs(a) ** p / p + size**p * (1 - 1 / p) - np.sign(b) * size ** (p - 1) * a
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(size > 0, (a - b) / b, np.inf)
    near = np.abs(x) <= _NEAR
    x = np.where(near, x, 0.0)
    # Σ_{k≥2} C(p, k)/p x^k = ((1 + x)^p − 1)/p − x
    factor, series = 1.0, np.zeros(x.shape)
    for k in range(2, _TERMS):
        factor *= (p - k + 1) / k
        series += factor * x**k
    terms = np.where(near, size**p * series, np.maximum(plain, 0.0))
    return terms.sum(axis=(-2, -1))[()]


def margin_share(W: Matrices, target: Certificate | Sequence[Certificate]) -> Any:
    """A certified lower bound on each matrix's share of the best margin, between 0 and 1.

        share = (min_k margin_k/b_k / ‖W‖) · least norm

    0 when a margin is not positive (with b_k = 0: negative), nan when W is not finite.
    Norm and rows are those of the certificate, which must be of a problem without ties.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    >>> best = attsvm.solve(attsvm.Problem.of(tokens, [0]))
    >>> round(float(margin_share([[3.0], [4.0]], best)), 6)
    0.2
    """
    array = _matrices(W)
    many: list[Certificate] = (
        [target] if isinstance(target, Certificate) else listed(target, "target", of="Certificates")
    )
    if not many:
        raise BadTokens("target is empty: give a Certificate, or one for each instance")
    if len(many) > 1 and (array.ndim < 3 or array.shape[-3] != len(many)):
        raise BadTokens(f"{len(many)} certificates for matrices of shape {array.shape}")
    for certificate in many:
        _check(certificate)
    stack = array.reshape(-1, *array.shape[-2:])
    found = np.array([_share(M, many[k % len(many)]) for k, M in enumerate(stack)])
    return found.reshape(array.shape[:-2])[()]


def _check(certificate: Certificate) -> None:
    """Raises Unsupported unless this certificate defines a margin share."""
    expect(certificate, Certificate, "target", make="solve(problem) gives one")
    if certificate.status == "infeasible":
        raise Infeasible(certificate.message)
    if certificate.problem.ties:
        raise Unsupported("a problem with ties has no margin share: compare with correlation")
    if isfinite(certificate.budget):
        raise Unsupported("a soft margin has no margin share: solve without a budget C")


def _share(W: Floats, certificate: Certificate) -> float:
    """A lower bound on the share of one matrix (d, dq); its margin is rounded down."""
    if not np.isfinite(W).all():
        return np.nan
    problem, norm, shape = certificate.problem, certificate.norm, certificate.problem.shape
    margins, rows = problem.margins(W), problem.row_norms
    error = margin_error(shape) * float(np.linalg.norm(W)) * rows
    asked = problem.b > 0
    if not asked.any():
        raise Unsupported("every right-hand side is 0: there is no margin to share")
    if ((margins + error)[asked] <= 0).any() or ((margins - error)[~asked] < 0).any():
        return 0.0
    b = problem.b[asked]
    worst = worst_margin(shape, W, margins=margins[asked], row_norms=rows[asked], b=b)
    return min(float(certificate.lower / above(norm, shape, W, float(worst))), 1.0)


def sparsity(s: Any) -> Any:
    """‖s‖₁²/‖s‖₂² along the last axis: 1 for one token, T for attention spread evenly.

    nan for a zero vector.

    >>> float(sparsity([0.5, 0.5, 0.0, 0.0]))
    2.0
    """
    s = np.abs(numbers(s, "s"))
    top = s.max(axis=-1, keepdims=True, initial=0.0)
    u = np.divide(s, top, out=np.full(s.shape, np.nan), where=top > 0)
    return (u.sum(axis=-1) ** 2 / (u**2).sum(axis=-1))[()]


def rank(W: Matrices, *, share: float = RANK_SHARE) -> Any:
    """The number of singular values of each matrix above `share` of its largest.

    >>> int(rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    s = _singular(W)
    share = positive(share, "share", zero=True)
    return (s > share * s[..., :1]).sum(axis=-1)[()]


def size(W: Matrices, norm: str | Norm = "frobenius") -> Any:
    """‖W‖ of each matrix.

    >>> float(size([[3.0, 0.0], [0.0, 4.0]])), float(size([[3.0, 0.0], [0.0, 4.0]], "nuclear"))
    (5.0, 7.0)
    """
    return norm_of(norm).value(_matrices(W))


def _matrices(W: Matrices) -> Floats:
    """Matrices (..., d, dq) of a run or an array; a vector becomes a column."""
    given = W.matrices() if isinstance(W, Run) else W
    array = numbers(given, "W").astype(np.float64, copy=False)
    if array.ndim == 0 or array.size == 0:
        raise BadTokens(f"W has shape {array.shape}; it must be (..., d, dq)")
    return array[:, None] if array.ndim == 1 else array


def _singular(W: Matrices) -> Floats:
    """The singular values of each matrix, largest first; raises BadTokens unless all are finite."""
    array = _matrices(W)
    if not np.isfinite(array).all():
        raise BadTokens("W holds a number that is not finite: it has no singular values")
    return singular(array)


def _target(target: Target) -> Floats:
    """The matrix (d, dq) of a Certificate, (B, d, dq) of a list of them, or an array's own."""
    if isinstance(target, Certificate):
        if target.W is None:
            kind = Infeasible if target.status == "infeasible" else NotConverged
            raise kind(target.message)
        return target.W
    if isinstance(target, Sequence) and target and isinstance(target[0], Certificate):
        return np.stack([_target(entry) for entry in target])
    return _matrices(target)


def _pair(W: Matrices, target: Target) -> tuple[Floats, Floats]:
    """Matrices and target, of shapes that fit."""
    A, B = _matrices(W), _target(target)
    if A.shape[-2:] != B.shape[-2:] or (B.ndim > 2 and B.shape[:-2] != A.shape[-B.ndim : -2]):
        raise BadTokens(f"W has shape {A.shape} and the target {B.shape}: they do not fit")
    return A, B


def _unit(W: Floats, p: float) -> Floats:
    """W / ‖W‖_p of each matrix; nan for a zero matrix."""
    top = np.abs(W).max(axis=(-2, -1), keepdims=True)
    scaled = np.divide(W, top, out=np.full(W.shape, np.nan), where=top > 0)
    norms = np.ones(W.shape[:-2])
    solid = top[..., 0, 0] > 0
    norms[solid] = power_norm(scaled[solid], p)
    unit: Floats = scaled / norms[..., None, None]
    return unit

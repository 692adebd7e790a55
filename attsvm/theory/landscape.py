"""The landscape of the loss: premises of the convergence theorems, at points and in the large.

The score of a token is γ_it = y_i v·x_it, opt_i the best token of input i. If every margin is tight
at the max-margin W^mm, then for every W

    −⟨∇L(W), W^mm⟩ = (1/n) Σ |ℓ'_i| s_i,opt (γ_i,opt − f_i) > 0

so that no W is stationary. Elsewhere the sign is a question, asked here at given, sampled and
sought points. Sizes leave the range of floats, so numbers are a sign and a logarithm.

Theory: [tarzanagh2023maxmargin], [tarzanagh2023svm].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attsvm._utils.arrays import Floats
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens
from attsvm.norms import Norm
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Kept, Selection
from attsvm.problem.tokens import Tokens
from attsvm.solvers.solve import solve
from attsvm.theory.optima import unequal_scores
from attsvm.theory.regularization_path.excess import Signed
from attsvm.training.heads import Head, head_of
from attsvm.training.losses import Loss, loss_of
from attsvm.training.models import model_of
from attsvm.training.models.gradient.batch import Batch
from attsvm.training.models.model import Evaluation, evaluate, log_norm


def all_tight(certificate: Certificate) -> bool | None:
    """Whether every margin is surely tight; None when one is undecided and none surely loose."""
    verdict = certificate.tight
    if verdict.loose.any():
        return False
    return True if bool(verdict.tight.all()) else None


def equal_scores(tokens: Tokens, head: Any) -> bool:
    """Whether all tokens of an input but its best share one score, up to rounding.

    >>> import attsvm
    >>> tokens = attsvm.Tokens([[[0.0, 1.0], [1.0, 0.5], [0.0, 0.5]]])
    >>> equal_scores(tokens, [0.0, 1.0]), equal_scores(tokens, [0.1, 1.0])
    (True, False)
    """
    return not unequal_scores(tokens, Selection.best(tokens, head), head)[1].any()


def initial_gradient_condition(
    tokens: Tokens, head: Any, *, loss: str | Loss = "logistic", W0: Any = None
) -> Signed:
    """The least of (k_opt − k_t)ᵀ (−∇L(W0)) z_i over inputs i and tokens t ≠ opt.

    It is positive exactly when the gradient at W0 (zero unless given) prefers the best token of
    every input.
    """
    problem = Problem.of(tokens, Selection.best(tokens, head))
    shape = problem.shape
    W = np.zeros(shape) if W0 is None else np.asarray(W0, dtype=np.float64).reshape(shape)
    found = _at(tokens, head, loss, W[None])
    G = found.gradient.direction["W"][0]
    return _signed(float(problem.margins(-G).min()), float(found.gradient.log_scale["W"][0]))


def descent_along(
    tokens: Tokens, head: Any, W: Any, direction: Any, *, loss: str | Loss = "logistic"
) -> Signed:
    """−⟨∇L(W), D⟩ for the direction D (an array, or the W of a Certificate)."""
    D = _direction(direction)
    at = np.asarray(W, dtype=np.float64).reshape(1, *D.shape)
    found = _at(tokens, head, loss, at)
    G = found.gradient.direction["W"][0]
    return _signed(-float(np.vdot(G, D)), float(found.gradient.log_scale["W"][0]))


def least_descent(
    tokens: Tokens,
    head: Any,
    direction: Any,
    *,
    loss: str | Loss = "logistic",
    radius: float = 10.0,
    samples: int = 2000,
    rounds: int = 60,
    seed: int = 0,
) -> tuple[float, Floats]:
    """The least cosine of −∇L(W) with the direction over ‖W‖_F ≤ radius that a search finds, and W.

    Samples: directions uniform on the sphere, norms log-uniform over (radius/1000, radius). Then
    `rounds` of a local search from the lowest ones: random changes of shrinking size, the better
    point kept. A negative cosine is a witness that the loss rises along the direction there; a
    positive one proves nothing.
    """
    D = _direction(direction)
    draw = np.random.default_rng(seed)
    unit = draw.standard_normal((samples, *D.shape))
    unit /= np.linalg.norm(unit, axis=(1, 2), keepdims=True)
    W = unit * radius * 10.0 ** draw.uniform(-3, 0, (samples, 1, 1))
    cosines = _cosines(tokens, head, loss, W, D)
    keep = cosines.argsort()[: min(8, samples)]
    best, low = W[keep], cosines[keep]
    children = 16
    for step in range(rounds):
        reach = 0.5 * 0.93**step
        size = np.linalg.norm(best, axis=(1, 2))[:, None, None, None]
        moves = draw.standard_normal((len(best), children, *D.shape)) / np.sqrt(D.size)
        moved = best[:, None] + reach * size * moves
        norms = np.linalg.norm(moved, axis=(2, 3), keepdims=True)
        moved *= np.minimum(1.0, radius / norms)
        found = _cosines(tokens, head, loss, moved.reshape(-1, *D.shape), D)
        found = found.reshape(len(best), children)
        pick = found.argmin(axis=1)
        rows = np.arange(len(best))
        better = found[rows, pick] < low
        best = np.where(better[:, None, None], moved[rows, pick], best)
        low = np.where(better, found[rows, pick], low)
    k = int(low.argmin())
    return float(low[k]), best[k]


def label_margin_constant(
    tokens: Tokens,
    keep: Kept,
    *,
    norm: str | Norm = "frobenius",
    samples: int = 100,
    shares: tuple[float, ...] = (0.01, 0.1, 0.3, 1.0),
    seed: int = 0,
) -> float:
    """ν of the joint theorems: the best v-margin on mixed tokens is at most Γ − ν max_i q_i.

    Γ is the label margin of the kept tokens, q_i the attention of input i off its own. The least
    (Γ − margin)/max q over mixtures that were tried: each single token at each share of attention,
    and random mixtures of all inputs. It can only fall with more mixtures: an upper estimate of the
    constant, and a value that is not positive is a witness that the assumption fails.
    """
    keep = Selection.of(tokens, keep)
    best = solve(Problem.of_labels(tokens, keep), norm).require()
    alpha, present = keep.indices, tokens.present()
    start = keep.kept.astype(np.float64)
    mixtures = []
    for i, t in np.argwhere(present & ~keep.kept):
        for q in shares:
            s = start.copy()
            s[i, alpha[i]], s[i, t] = 1.0 - q, q
            mixtures.append(s)
    draw = np.random.default_rng(seed)
    for _ in range(samples):
        off = draw.exponential(size=start.shape) ** 2 * (present & ~keep.kept)
        total = off.sum(axis=1, keepdims=True)
        off = np.divide(off, total, out=np.zeros_like(off), where=total > 0)
        q = draw.choice(shares) * draw.uniform(size=(tokens.n, 1)) * (total > 0)
        mixtures.append((1 - q) * start + q * off)
    X = Batch.of(tokens).values[0]
    labels = np.asarray(tokens.labels)
    margin, least = 1.0 / best.lower, np.inf
    for s in mixtures:
        q = float((1.0 - s[np.arange(tokens.n), alpha]).max())
        if q <= 0:
            continue
        rows = labels[:, None] * np.einsum("nt,ntd->nd", s, X)
        found = solve(Problem.from_rows(rows), norm)
        # Without a separating v the best margin over the ball is 0, at v = 0.
        value = (margin - (1.0 / found.upper if np.isfinite(found.upper) else 0.0)) / q
        least = min(least, value)
    return float(least)


def _signed(value: float, log_scale: float) -> Signed:
    if value == 0.0 or log_scale == -np.inf:
        return Signed(0, -np.inf)
    return Signed(1 if value > 0 else -1, float(np.log(abs(value)) + log_scale))


def _direction(direction: Any) -> Floats:
    """D (d, dq) of an array or a Certificate."""
    if isinstance(direction, Certificate):
        found = direction.require().W
        if found is None:
            raise BadTokens("the certificate holds no W")
        return found
    D = np.asarray(direction, dtype=np.float64)
    return D[:, None] if D.ndim == 1 else D


def _at(tokens: Tokens, head: Any, loss: str | Loss, W: Floats) -> Evaluation:
    """Loss and gradient in W at each matrix of a stack (B, d, dq)."""
    batch = Batch.of([tokens] * len(W))
    read: Head = head_of(head, tokens.d)
    return evaluate(model_of("weight"), {"W": W}, batch, read, loss_of(loss))


def _cosines(tokens: Tokens, head: Any, loss: str | Loss, W: Floats, D: Floats) -> Floats:
    """⟨−∇L(W), D⟩ / (‖∇L(W)‖ ‖D‖) of each matrix; 0 where the gradient is exactly zero."""
    found = _at(tokens, head, loss, W)
    G, scale = found.gradient.direction["W"], found.gradient.log_scale["W"]
    log = log_norm(found.gradient)
    size = np.exp(np.where(np.isfinite(log), log - scale, 0.0)) * np.linalg.norm(D)
    return np.where(np.isfinite(log), -np.einsum("bij,ij->b", G, D) / size, 0.0)

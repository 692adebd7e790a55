"""What is measured of a head's choices: what predicts them, its kind, and its norm ratio.

Fits. Matrices are fitted to the choices of some queries, by max margin, by mean difference and by
cross-entropy, and asked for those of others. Selections are almost always separable here (there are
more parameters than rows): that a fit exists says nothing, what it says of unseen queries does.

Rules. A rule picks a key by its place alone. One that picks the same key for every query names a
sink: the first special token ([CLS]), the last ([SEP]), the first or the last ordinary one (often a
full stop). One that starts from the query names a place: its own, or one at a fixed distance. The
mean query looks at keys only.

Kinds, tried in this order:

    content      the SVM of its choices agrees with half of the held-out choices, and with a tenth
                 more of them than the best one-line rule, special keys kept and removed
    sink         that rule names a sink, and holds for half of the held-out choices
    positional   it names a place, and holds for half of them; or for half of them once special
                 keys are removed, where no rule does before
    diffuse      none of these, or the two top logits are equal for half of the queries

Norm ratio. Among all W' that keep at least the head's own top-two gap on every query,
(x_a − x_t)ᵀ W' z ≥ gap for every other key t, the least norm over ‖W‖: W itself is one of them, so
that it is at most 1. Both bounds come from a certificate. It rises with the number of queries,
which is therefore reported with it; compare it with that of the nulls: heads made of the same
numbers by chance, which choose for themselves. With the singular values of W = U S Vᵀ, `spectrum`
draws both subspaces anew, and `rotated` keeps the head's own and turns inside them, U R S R'ᵀ Vᵀ.
What a trained head does no better than these is no finding about training.
"""

from __future__ import annotations

import time
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from attsvm._utils.arrays import Bools, Floats, Ints
from attsvm._utils.interval import UNIT
from attsvm._utils.memory import require
from attsvm._utils.parallel import one_thread
from attsvm.certificate import Certificate
from attsvm.errors import BadTokens, ConvergenceWarning, TooLarge
from attsvm.inspection.config import InspectionConfig
from attsvm.inspection.guarantees import Guaranteed, guarantees
from attsvm.inspection.view import View, margins_of
from attsvm.norms import Norm, norm_of
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


def fields(name: str) -> dict[str, str]:
    """What the columns of a table in fields.toml are."""
    text = files("attsvm.inspection").joinpath("fields.toml").read_text("utf-8")
    found: dict[str, str] = tomllib.loads(text)[name]
    return found


_AGREEMENT = fields("agreement")
# What each field of a record is.
FIELDS: dict[str, str] = {
    **fields("head"),
    **_AGREEMENT,
    **fields("selection"),
    **{f"content_{name}": f"special keys removed: {what}" for name, what in _AGREEMENT.items()},
    **fields("norm"),
    **fields("guarantees"),
}
# Agreements of a head, by field; see `held_out`.
Agreement = dict[str, Any]


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


# How far from the query an offset rule looks.
FARTHEST = 8

Kind = Literal["sink", "positional", "content", "diffuse"]


class Rule(NamedTuple):
    """A rule: its name, sink or positional, and the key (n,) it picks, −1: none."""

    name: str
    place: Kind
    pick: Callable[[View], Ints]


def _first(marked: Bools) -> Ints:
    return np.where(marked.any(axis=1), marked.argmax(axis=1), -1)


def _last(marked: Bools) -> Ints:
    T = marked.shape[1]
    return np.where(marked.any(axis=1), T - 1 - marked[:, ::-1].argmax(axis=1), -1)


def _offset(k: int) -> Rule:
    """The rule that picks the key at k places from the query, if it is valid."""

    def pick(view: View) -> Ints:
        at = view.positions + k
        inside = (at >= 0) & (at < view.valid.shape[1])
        at = np.where(inside, at, 0)
        return np.where(inside & view.valid[np.arange(len(at)), at], at, -1)

    name = "itself" if k == 0 else f"{abs(k)} {'after' if k > 0 else 'before'}"
    return Rule(name, "positional", pick)


RULES: tuple[Rule, ...] = (
    Rule("first special", "sink", lambda view: _first(view.valid & view.special)),
    Rule("last special", "sink", lambda view: _last(view.valid & view.special)),
    Rule("first ordinary", "sink", lambda view: _first(view.valid & ~view.special)),
    Rule("last ordinary", "sink", lambda view: _last(view.valid & ~view.special)),
    *(_offset(k) for k in sorted(range(-FARTHEST, FARTHEST + 1), key=abs)),
)


def rule_for(fit: tuple[View, Ints], test: tuple[View, Ints]) -> Agreement:
    """The rule that most of these keys follow, each with its View, and its agreement on others."""
    followed = [float((rule.pick(fit[0]) == fit[1]).mean()) for rule in RULES]
    best = RULES[int(np.argmax(followed))]
    agreement = float((best.pick(test[0]) == test[1]).mean())
    return {"rule": best.name, "rule_place": best.place, "rule_agreement": agreement}


# Queries that fits and kinds need: one third is fitted, the rest held out.
NEEDED = 30
# agreement: the share of held-out queries that a rule, or the SVM, must agree with; lift: how much
# more often than the best rule the SVM must agree.
THRESHOLDS = {"agreement": 0.5, "lift": 0.1}


def kind_of(found: Agreement, without: Agreement | None = None) -> Kind:
    """The kind of a head, from its held-out agreement; without: with special keys removed."""
    if found["tied"] >= THRESHOLDS["agreement"]:  # the first of equals is no choice of the head
        return "diffuse"
    rest, level = found if without is None else without, THRESHOLDS["agreement"]
    tokens = (
        one["svm_agreement"] >= level and one["lift"] >= THRESHOLDS["lift"] for one in (found, rest)
    )
    if all(tokens):
        return "content"
    if found["rule_agreement"] >= level:
        return found["rule_place"]
    positional = rest["rule_agreement"] >= level and rest["rule_place"] == "positional"
    return "positional" if positional else "diffuse"


# A query is saturated when one key has more than this much of its attention.
SATURATED = 0.9


def sharpness_of(view: View) -> dict[str, float]:
    """How sharp a head's attention is over the View's queries, by the fields of its record."""
    attention = view.attention()
    most = attention.max(axis=1)
    return {
        "sharpness": float(most.mean()),
        "saturated": float((most > SATURATED).mean()),
        "special_attention": float(np.where(view.special, attention, 0.0).sum(axis=1).mean()),
        "chance": float((1.0 / view.valid.sum(axis=1)).mean()),
    }


def split_rows(n: int, *, fit: int, test: int, seed: int) -> tuple[Ints, Ints]:
    """`fit` of n rows drawn at random, and `test` others; where there are fewer, one third."""
    order = np.random.default_rng(seed).permutation(n)
    cut = min(fit, max(1, n // 3)) if n < fit + test else fit
    return order[:cut], order[cut : cut + test]


def split(view: View, *, fit: int, test: int, seed: int) -> tuple[View, View]:
    """The Views of the queries to fit on and of those held out, as `split_rows` draws them."""
    fitted, held = split_rows(len(view.queries), fit=fit, test=test, seed=seed)
    return view.subset(fitted), view.subset(held)


def held_out(fit: View, test: View, *, cross: bool = True) -> Agreement:
    """The share of held-out queries on which each fit agrees with the head's choice, by fields.

    Beside these tied: the share of held-out queries whose two top logits cannot be separated,
    though their keys can, so that theirs is no choice; learned: the queries that the SVM was fitted
    to, and the SVM. cross: whether cross-entropies are fitted.
    """
    target = test.chosen()
    mean = np.broadcast_to(fit.queries.mean(axis=0), test.queries.shape)
    other = np.where(twins(test, target), np.inf, margins_of(test).least)
    found: Agreement = dict.fromkeys(_AGREEMENT, np.nan) | {"separable": None, "learned": None}
    found |= rule_for((fit, fit.chosen()), (test, target))
    found |= {
        "mean_query_agreement": float((replace(test, queries=mean).chosen() == target).mean()),
        "tied": float((~(other.min(axis=1) > 0)).mean()),
    }
    rows = apart(fit, fit.chosen())
    if len(rows):
        fitted = fit.subset(rows)
        chosen = fitted.chosen()
        svm = svm_fit(fitted, chosen)
        hot, soft = np.eye(fitted.valid.shape[1])[chosen], fitted.attention()
        fits = {"svm": svm.W, "mean_difference": mean_difference(fitted, hot)}
        if cross:
            fits["cross_entropy"] = cross_entropy(fitted, hot)
            fits["soft_cross_entropy"] = cross_entropy(fitted, soft)
        found |= {f"{name}_agreement": agreement_of(test, W, target) for name, W in fits.items()}
        found |= {"separable": not svm.soft, "learned": (fitted, svm)}
        found["lift"] = found["svm_agreement"] - found["rule_agreement"]
        found["cosine"] = cosine_of(svm.W, test.W)
    return found | {"kind": kind_of(found)}


# Quotients and products of a few numbers are rounded by less than this share.
_ROUNDED = 1e-12


class NormRatio(NamedTuple):
    """lower ≤ least norm / ‖W‖ ≤ upper, certified, over `queries` queries with a choice.

    Ties have no gap to keep and are left out.
    """

    lower: float
    upper: float
    queries: int


def norm_ratio_of(view: View, norm: str = "frobenius") -> NormRatio:
    """The certified norm ratio of a head, in the Frobenius or the nuclear norm."""
    margins = margins_of(view)
    rows = np.flatnonzero(~margins.tied & np.isfinite(margins.gap))
    if not len(rows):
        return NormRatio(np.nan, np.nan, 0)
    view, gap, chosen = view.subset(rows), margins.gap[rows], margins.chosen[rows]
    # The true gaps lie between `least` and `gap`, which is what W' must keep.
    least = margins.least[rows].min(axis=1)
    gap = gap + (gap - least)
    size = float(norm_of(norm).value(np.diag(decompose(view)[1])))
    # How far the norm of W, of its singular values as computed, may be from the truth.
    K, Q = view.key_factor, view.query_factor
    lost = 8 * (sum(K.shape) + sum(Q.shape)) * UNIT * len(K) ** 0.5
    unsure = lost * float(np.linalg.norm(K)) * float(np.linalg.norm(Q)) + _ROUNDED * size
    best = quietly(Problem.of(tokens_of(view, chosen), chosen, b=gap), norm)
    upper = min(best.upper / (size - unsure), 1.0) if size > unsure else 1.0
    kept = float((least / gap).min()) * (1 - _ROUNDED)
    lower = min(kept * best.lower / (size + unsure), upper)
    return NormRatio(lower, upper, len(rows))


def null_ratios(view: View, norm: str = "frobenius", *, draws: int, seed: int) -> dict[str, Floats]:
    """The norm ratios (draws,) of each null: its upper bounds, which is what the head's is."""
    found = {}
    for number, (name, null) in enumerate(NULLS.items()):
        values = []
        for draw in range(draws):
            rng = np.random.default_rng([seed, number, draw])
            values.append(norm_ratio_of(null(view, rng), norm).upper)
        found[name] = np.array(values)
    return found


# Singular values below this share of the largest are rounding.
_RANK = 1e-12


def spectrum(view: View, rng: np.random.Generator) -> View:
    """A head with the same singular values and random subspaces."""
    U, S, V = decompose(view)
    left = _orthonormal(rng, U.shape[0], len(S))
    return _with(view, left, S, _orthonormal(rng, V.shape[0], len(S)))


def rotate(view: View, rng: np.random.Generator) -> View:
    """A head with the same singular values and subspaces, rotated inside them."""
    U, S, V = decompose(view)
    rank = max(1, int((_RANK * S.max() < S).sum()))  # what lies beyond is none of the head's
    turns = (_orthonormal(rng, rank, rank) for _ in range(2))
    left, right = (part[:, :rank] @ turn for part, turn in zip((U, V), turns, strict=True))
    return _with(view, left, S[:rank], right)


NULLS: dict[str, Callable[[View, np.random.Generator], View]] = {
    "spectrum": spectrum,
    "rotated": rotate,
}


def decompose(view: View) -> tuple[Floats, Floats, Floats]:
    """U (d, h), S (h,), V (dq, h) with W = U S Vᵀ, from the factors alone."""
    left, A = np.linalg.qr(view.key_factor.astype(np.float64).T)
    right, B = np.linalg.qr(view.query_factor.astype(np.float64).T)
    u, S, v = np.linalg.svd(A @ B.T, full_matrices=False)
    return left @ u, S, right @ v.T


def _with(view: View, U: Floats, S: Floats, V: Floats) -> View:
    root = np.sqrt(S)
    return replace(view, key_factor=(U * root).T, query_factor=(V * root).T)


def _orthonormal(rng: np.random.Generator, d: int, h: int) -> Floats:
    """h orthonormal columns of d entries, uniform over all such."""
    basis, R = np.linalg.qr(rng.normal(size=(d, h)))
    columns: Floats = basis * np.sign(np.diag(R))
    return columns


# How often the fitted keys, or matrices of the size of W, are held at once.
_TIMES = 6
# Queries that are shown with their text.
SAMPLES = 6


@one_thread()
def measure(
    view: View,
    config: InspectionConfig,
    *,
    cache: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Every field of FIELDS for a head; what its page shows, samples and gaps; its queries.

    cache: the fields on the cache of keys. Raises BadTokens where no query has two keys.
    """
    start = time.process_time()
    rows = np.flatnonzero(view.valid.sum(axis=1) >= 2)  # others choose nothing
    if not len(rows):
        raise BadTokens(
            f"{view.name}: no query has two keys, so that none chooses; give longer texts"
        )
    view = view if len(rows) == len(view.queries) else view.subset(rows)
    what = f"measuring an attention head on queries over keys of shape {view.keys.shape}"
    need = _TIMES * 8.0 * (view.keys.size + view.keys.shape[2] * view.queries.shape[1])
    require(need, what, use="fewer queries or shorter texts")
    found: dict[str, Any] = dict.fromkeys(FIELDS, np.nan)
    found |= dict.fromkeys(name for name in FIELDS if name.endswith(("rule", "place", "kind")))
    found |= {
        "name": view.name,
        "layer": view.layer,
        "head": view.head,
        "space": view.space,
        "separable": None,
        "content_separable": None,
        "queries": len(view.queries),
        "keys": float(view.valid.sum(axis=1).mean()),
        **sharpness_of(view),
    }
    certain = guarantees(view, config)
    found |= certain.fields | {
        name: value + certain.fields.get(name, 0) for name, value in (cache or {}).items()
    }
    gaps: dict[str, Any] = {}
    if len(view.queries) >= NEEDED:
        fit, test = split(view, fit=config.fit, test=config.test, seed=config.seed)
        agreed = held_out(fit, test, cross=config.cross)
        content, without = _content_fields(view, config)
        found |= {name: agreed[name] for name in _AGREEMENT}
        found |= content | _norm_fields(fit, config) | {"kind": kind_of(agreed, without)}
        found |= {"fitted": len(fit.queries), "tested": len(test.queries)}
        gaps = _sorted_gaps(*agreed["learned"]) if agreed["learned"] else {}
    queries = query_columns(view, certain)
    details = {"name": view.name, "samples": _samples(view, certain), "gaps": gaps}
    found["seconds"] = time.process_time() - start
    return found, details, queries


def _content_fields(
    view: View, config: InspectionConfig
) -> tuple[dict[str, Any], Agreement | None]:
    """The fields with special keys removed; no agreement where too few keys are left."""
    rows = np.flatnonzero((view.valid & ~view.special).sum(axis=1) >= 2)
    if len(rows) < NEEDED:
        return {"content_queries": len(rows)}, None
    content = view.subset(rows)
    content = replace(content, valid=content.valid & ~content.special)
    parts = split(content, fit=config.fit, test=config.test, seed=config.seed)
    agreed = held_out(*parts, cross=config.cross)
    sharpness = sharpness_of(content)["sharpness"]
    fields = {"content_queries": len(rows), "content_sharpness": sharpness}
    return fields | {f"content_{name}": agreed[name] for name in _AGREEMENT}, agreed


def _norm_fields(view: View, config: InspectionConfig) -> dict[str, Any]:
    """The norm ratio, certified, beside that of both nulls."""
    S = decompose(view)[1]
    own = norm_ratio_of(view)
    found = {
        "norm": float(np.sqrt((S**2).sum())),
        "nuclear_norm": float(S.sum()),
        "norm_ratio": own.upper,
        "norm_ratio_lower": own.lower,
        "norm_ratio_queries": own.queries,
    }
    for name, values in null_ratios(view, draws=config.draws, seed=config.seed).items():
        for end, share in (("_low", 0.0), ("", 0.5), ("_high", 1.0)):
            found[f"norm_ratio_{name}{end}"] = _quantile(values, share)
    if config.nuclear_draws < 0:
        return found
    try:
        own = norm_ratio_of(view, "nuclear")
        draws = null_ratios(view, "nuclear", draws=config.nuclear_draws, seed=config.seed)
    except TooLarge:  # only the Frobenius norm is reported
        return found
    found |= {"nuclear_norm_ratio": own.upper, "nuclear_norm_ratio_lower": own.lower}
    return found | {f"nuclear_norm_ratio_{name}": _quantile(draws[name], 0.5) for name in NULLS}


def _quantile(values: Floats, share: float) -> float:
    """The quantile of the values that are known; nan without any."""
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if len(known) else np.nan


def _samples(view: View, found: Guaranteed) -> list[dict[str, Any]]:
    """For each of the first queries, its text as the head sees it and what is guaranteed."""
    out = []
    for i, tokens in enumerate(view.texts[:SAMPLES]):
        one = {name: values[i].item() for name, values in found.queries.items()}
        one["evictable"] = sorted(found.order[i, : one["evictable"]].tolist())
        one |= {"tokens": list(tokens), "position": int(view.positions[i])}
        one["attention"] = view.attention()[i, : len(tokens)].tolist()
        one["valid"] = view.valid[i, : len(tokens)].tolist()
        out.append(one)
    return out


def query_columns(view: View, found: Guaranteed) -> dict[str, Any]:
    """A row per query: where it stands, what it chooses, and what is certified of that."""
    rows, chosen = np.arange(len(view.queries)), found.queries["chosen"]
    query, key = (
        [text[t] for text, t in zip(view.texts, places, strict=True)]
        for places in (view.positions, chosen)
    )
    return {
        "position": view.positions,
        "query": query,
        "key": key,
        "attention": view.attention()[rows, chosen],
        "keys": view.valid.sum(axis=1),
        **found.queries,
    }


def _sorted_gaps(fit: View, found: SvmFit) -> dict[str, Any]:
    """The top-two gaps of W/‖W‖ on the fitted queries, sorted, and those of the SVM at norm 1.

    best: the certified bounds of the largest least gap that any matrix of norm 1 has on them.
    """
    chosen = fit.chosen()
    size, length = float(np.linalg.norm(fit.W)), float(np.linalg.norm(found.W))
    if not size > 0 or not length > 0:
        return {}
    logits, at = logits_by(fit, found.W), np.arange(len(chosen))
    rival = logits.copy()
    rival[at, chosen] = -np.inf
    best = found.certificate
    return {
        "head": [float(g) for g in np.sort(margins_of(fit).gap) / size],
        "svm": [float(g) for g in np.sort(logits[at, chosen] - rival.max(axis=1)) / length],
        "best": None if found.soft or not best.lower > 0 else [1 / best.upper, 1 / best.lower],
        "queries": len(chosen),
    }

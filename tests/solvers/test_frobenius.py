"""The Frobenius solvers, small and large: coordinate descent, Newton and their driver, judged from
the rows alone."""

from __future__ import annotations

from math import inf
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from attsvm.solvers.frobenius import coordinate_descent as coordinate
from attsvm.solvers.frobenius.newton import MEMORY, solve_large
from tests.tolerances import GAP, ORACLE, ROUNDING
from tests.twins import frobenius as twins

Rows = dict[str, Any]


def solve_rows(
    *, tol: float, budget: float = inf, memory: float = MEMORY, **rows: Any
) -> tuple[np.ndarray, np.ndarray]:
    """W and λ of these rows."""
    return solve_large(coordinate.sort_rows(**rows, budget=budget), tol=tol, memory=memory)


def selection(n: int, T: int, d: int, *, seed: int = 0, prompt: bool = False) -> Rows:
    """Rows of a random selection; the prompt form is planted so that a solution exists."""
    draw = np.random.default_rng(seed)
    X, Z = draw.standard_normal((n, T, d)), draw.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    kept = draw.integers(0, T, n)
    if prompt:
        Z = np.ones((n, 1))
        kept = (X @ draw.standard_normal(d)).argmax(1)
    dropped = np.ones((n, T), bool)
    dropped[np.arange(n), kept] = False
    query = np.repeat(np.arange(n), T - 1)
    return {
        "keys": X.reshape(n * T, d), "queries": Z, "hi": query * T + np.repeat(kept, T - 1),
        "lo": np.flatnonzero(dropped.ravel()), "query": query, "b": np.ones(n * (T - 1)),
        "free": np.zeros(n * (T - 1), bool),
    }  # fmt: skip


def mixed(*, seed: int = 0, d: int = 6, dq: int = 5, m: int = 60) -> Rows:
    """Shuffled rows with lo = −1, a repeated query, rows without features, ties, b = 0."""
    draw = np.random.default_rng(seed)
    free = np.arange(m) % 10 == 3
    return {
        "keys": draw.standard_normal((40, d)), "queries": draw.standard_normal((7, dq)),
        "hi": draw.integers(20, 40, m), "lo": draw.integers(-1, 20, m),
        "query": draw.integers(0, 7, m), "free": free,
        "b": np.where(free, draw.standard_normal(m), np.arange(m) % 4 * 0.5),
    }  # fmt: skip


def dense(rows: Rows) -> np.ndarray:
    """The rows Δ_k z_kᵀ, flattened: (m, d·dq)."""
    keys = np.asarray(rows["keys"], np.float64)
    delta = keys[rows["hi"]] - np.where(rows["lo"][:, None] >= 0, keys[rows["lo"]], 0.0)
    z = rows["queries"][rows["query"]]
    return (delta[:, :, None] * z[:, None, :]).reshape(len(delta), -1)


def gap(rows: Rows, W: np.ndarray, lam: np.ndarray) -> float:
    """‖W‖/min(margin/b) over bᵀλ/‖Σ λ Δ zᵀ‖, less one; from the rows alone."""
    A = dense(rows)
    assert lam.min() >= 0
    least = float((A @ W.ravel() / rows["b"]).min())
    assert least > 0
    return np.linalg.norm(W) / least / (rows["b"] @ lam / np.linalg.norm(lam @ A)) - 1.0


def backwards(*, seed: int, ties: int = 0) -> tuple[Rows, np.ndarray]:
    """Rows and their least-norm W, from multipliers chosen first: a quarter of the rows is tight.

    W = Σ λ Δ zᵀ, b = Δᵀ W z on tight rows and ties, b below Δᵀ W z elsewhere (zero when that is
    all there is room for): the optimality conditions hold by construction.
    """
    draw = np.random.default_rng(seed)
    rows = selection(40, 8, 12, seed=seed)
    A = dense(rows)
    m = len(A)
    tie = np.arange(m) < ties
    lam = np.where(np.arange(m) % 4 == 0, draw.exponential(size=m), 0.0)
    lam[tie] = draw.standard_normal(ties)
    W = lam @ A
    value = A @ W
    good = tie | (value > 0)
    while not good[lam != 0].all():  # a tight margin needs b ≥ 0: turn the others out
        lam[~good] = 0.0
        W = lam @ A
        value = A @ W
        good = tie | (value > 0)
    loose = np.where(draw.random(m) < 0.3, 0.0, 0.5 * value)
    b = np.where((lam != 0) | tie, value, loose)
    for name in ("hi", "lo", "query"):
        rows[name] = rows[name][good]
    return rows | {"b": b[good], "free": tie[good]}, W.reshape(12, 12)


def sides_of(rows: coordinate.Segments) -> coordinate.Sides:
    """What an epoch takes of the rows besides their pools."""
    return rows.b, rows.floor, rows.ceil, rows.length


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("budget", [inf, 0.2])
@pytest.mark.parametrize("omega", [1.0, 1.7])
def test_compiled_epoch_equals_its_twin(kind: type, budget: float, omega: float) -> None:
    given = mixed(seed=2)
    given["keys"] = given["keys"].astype(kind)
    given["lo"][5] = given["hi"][5]  # a row without features
    rows = coordinate.sort_rows(**given, budget=budget)
    order = np.random.default_rng(0).permutation(len(rows.query))
    sides = []
    for epoch in (coordinate._epoch, twins.epoch):
        lam, W, active, count = np.zeros(60), np.zeros((6, 5)), np.arange(60), np.diff(rows.start)
        wait = active, count
        worst = [
            epoch(rows.pools, sides_of(rows), order, *wait, cut, coordinate.PASSES, omega, lam, W)
            for cut in (inf, 0.05)
        ]
        sides.append((lam, W, active, count, np.array(worst)))
    assert sides[0][3].sum() < 60  # the cut sent rows to wait, so that path is compared too
    for left, right in zip(*sides, strict=True):
        np.testing.assert_allclose(left, right, atol=ROUNDING * 100)


@pytest.mark.parametrize("ties", [0, 6])
@pytest.mark.parametrize("seed", range(3))
def test_known_answer(seed: int, ties: int) -> None:
    rows, W = backwards(seed=seed, ties=ties)
    assert (rows["b"] == 0).any() and len(rows["b"]) > 100
    got, lam = solve_rows(**rows, tol=ROUNDING)
    np.testing.assert_allclose(got, W, atol=1e-9 * np.linalg.norm(W))
    assert lam[~rows["free"]].min() >= 0


@pytest.mark.parametrize(
    ("prompt", "memory", "tol", "reached"),
    [(False, MEMORY, 1e-13, ROUNDING), (True, MEMORY, 1e-13, ROUNDING), (False, 0.0, GAP, GAP)],
)  # without memory: coordinate descent alone
def test_gap_reaches_rounding(prompt: bool, memory: float, tol: float, reached: float) -> None:
    rows = selection(50, 20, 32, prompt=prompt, seed=0 if memory else 1)
    assert gap(rows, *solve_rows(**rows, tol=tol, memory=memory)) < reached


@pytest.mark.parametrize("change", [1e-8, 1e8, "rows"])
def test_scaling_scales_and_row_order_and_duplicates_do_not_matter(change: float | str) -> None:
    rows = selection(30, 8, 16, seed=2)
    W, _ = solve_rows(**rows, tol=1e-12)
    size = 1.0 if change == "rows" else float(change)
    again = rows | {"keys": size * rows["keys"], "queries": size * rows["queries"]}
    if change == "rows":
        index = np.random.default_rng(0).permutation(np.r_[np.arange(210), np.arange(0, 210, 3)])
        again |= {name: rows[name][index] for name in ("hi", "lo", "query", "b", "free")}
    V, lam = solve_rows(**again, tol=1e-12)
    assert gap(again, V, lam) < 1e-11
    np.testing.assert_allclose(V * size**2, W, atol=1e-9 * np.linalg.norm(W))


def oracle(rows: Rows, budget: float) -> float:
    """½‖W‖² + C Σ ξ at the optimum, by cvxpy; an infinite budget allows no ξ."""
    A = dense(rows)
    w, free, b = cp.Variable(A.shape[1]), rows["free"], rows["b"]
    limits = [A[free] @ w == b[free]] if free.any() else []
    cost = 0.5 * cp.sum_squares(w)
    if budget < inf:
        cost += budget * cp.sum(cp.pos(b[~free] - A[~free] @ w))
    else:
        limits.append(A[~free] @ w >= b[~free])
    return float(cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("budget", [0.01, 0.5, inf])
@pytest.mark.parametrize("seed", range(3))
def test_objective_equals_the_oracle(seed: int, budget: float) -> None:
    rows, _ = backwards(seed=seed, ties=4)
    W, lam = solve_rows(**rows, tol=1e-10, budget=budget)
    A, free = dense(rows), rows["free"]
    short = np.maximum(rows["b"] - A @ W.ravel(), 0.0)[~free].sum()
    value = 0.5 * np.vdot(W, W) + (budget * short if budget < inf else 0.0)
    assert value == pytest.approx(oracle(rows, budget), rel=ORACLE)
    assert rows["b"] @ lam - 0.5 * np.sum((lam @ A) ** 2) == pytest.approx(value, rel=1e-9)
    assert lam[~free].min() >= 0 and lam[~free].max() <= budget * (1 + ROUNDING)
    np.testing.assert_allclose(A[free] @ W.ravel(), rows["b"][free], atol=1e-8 * np.linalg.norm(W))

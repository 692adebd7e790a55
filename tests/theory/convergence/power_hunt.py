"""A hunt for false proofs of mirror descent: small instances of all kinds, and runs from there.

python -m tests.theory.convergence.power_hunt 220

Members of a power cone are as hard as they come: cosines, gradients and steps are written anew, in
floats, and nothing is taken from the package.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

import attsvm
from attsvm.theory.convergence.prover import prover
from tests.theory.convergence.reference import Case

POWERS = (1.1, 1.3, 1.5, 1.7, 1.9, 2.1, 2.5, 3, 4, 6)
LOSSES = ("logistic", "exponential", "linear")


def instance(seed, n=6, T=8, d=10, rank=0):
    """(tokens, head, selection): tokens on the sphere; rank 0 keeps each input's best token."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, T, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    Z = rng.standard_normal((n, d))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    v = rng.standard_normal(d)
    v /= np.linalg.norm(v)
    y = rng.choice([-1.0, 1.0], n)
    order = np.argsort(-y[:, None] * (X @ v), axis=1)
    alpha = order[:, 0].copy()
    alpha[:rank] = order[:rank, 1]
    return attsvm.Tokens(X, queries=Z, labels=y), v, alpha


def solution(tokens, alpha, p):
    """The ℓp max-margin W of a selection, of ℓp norm 1."""
    problem = attsvm.Problem.of(tokens, attsvm.Selection.of(tokens, alpha))
    W = attsvm.solve(problem, f"l{p:g}").W
    return W / norm(W, p)


def norm(x, p):
    top = np.abs(x).max()
    return top * float((np.abs(x / top) ** p).sum() ** (1 / p))


def lifted(x, s):
    return np.sign(x) * np.abs(x) ** s


def cosine(W, axis, p):
    """c_p."""
    Y = lifted(W / norm(W, p), p - 1)
    return float((Y * axis).sum() / norm(axis, p))


def at_distance(axis, Y, u, p):
    """The direction between the axis and the dual Y with 1 − c_p = u; None if Y is nearer."""
    q = p / (p - 1)
    start, end = lifted(axis / norm(axis, p), p - 1), Y / norm(Y, q)

    def found(t):
        x = lifted(start + t * (end - start), q - 1)
        return x / norm(x, p)

    low, high = 0.0, 16.0
    if 1 - cosine(found(high), axis, p) < u:
        return None
    for _ in range(80):
        middle = 0.5 * (low + high)
        if 1 - cosine(found(middle), axis, p) < u:
            low = middle
        else:
            high = middle
    return found(low)


def members(axis, rows, u, p, rng, count=12):
    """Directions with 1 − c_p = u: random ones, and those worst for a row of `rows` (k, d, dq)."""
    w = axis / norm(axis, p)
    out = []
    for _ in range(count):
        E = rng.standard_normal(w.shape) * np.abs(rng.standard_normal(w.shape)) ** rng.uniform(0, 3)
        scale = norm(lifted(w, p - 1), p / (p - 1)) / norm(E, p / (p - 1))
        out.append(at_distance(axis, lifted(w, p - 1) + 3 * scale * E, u, p))
    for a in rows:
        for lam in np.geomspace(0.1, 10, 5) / np.sqrt(u):
            x = worst(a, w, lam, p)
            out.append(at_distance(axis, lifted(x, p - 1), u, p))
    return [x for x in out if x is not None]


def worst(a, w, lam, p):
    """Entry by entry the least of a x + λ d(w, x), on a grid: where a row's margin suffers most."""
    grid = np.concatenate([-np.geomspace(1e-7, 1, 300)[::-1], [0.0], np.geomspace(1e-7, 1, 300)])
    grid = grid * 0.7
    flat, own = a.ravel(), w.ravel()
    x = np.concatenate([np.broadcast_to(grid, (len(own), len(grid))), own[:, None] + grid], axis=1)
    o = own[:, None]
    d = np.abs(o) ** p / p + np.abs(x) ** p * (1 - 1 / p) - o * lifted(x, p - 1)
    best = (flat[:, None] * x + lam * d).argmin(axis=1)
    return x[np.arange(len(own)), best].reshape(w.shape)


def gradient(tokens, v, alpha, W, scaled=True):
    """−∇L for the logistic loss, up to a positive factor if scaled, and all rows a_k (k, d, dq)."""
    chosen, w = Case.of(tokens, v, "logistic").at(alpha), W.reshape(1, -1)
    g = chosen.gradient(w, chosen.margins(w).min(axis=1) if scaled else np.zeros(1))
    return g.reshape(W.shape), chosen.a.reshape(-1, *W.shape)


def stepped(tokens, v, alpha, W, h, p):
    """(Y, Y₊) of one step of dual length h."""
    g, _ = gradient(tokens, v, alpha, W)
    Y = lifted(W, p - 1)
    return Y, Y + h * g / norm(g, p / (p - 1))


def tried(seed):
    """(what is wrong, how often which theorem was proved) of one random instance."""
    rng = np.random.default_rng(seed)
    n, T, d = int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(2, 5))
    p = float(rng.choice(POWERS))
    optimizer = f"{rng.choice(['nmirror', 'mirror'])}:{p:g}"
    tokens, v, alpha = instance(seed, n, T, d, rank=int(rng.integers(0, 2)))
    X = np.asarray(tokens.X) * 10.0 ** rng.uniform(-2, 2)
    if seed % 4 == 0:  # small whole numbers: zeros in the solution, equal scores
        X = np.round(X / np.abs(X).max() * 2)
    tokens = attsvm.Tokens(X, queries=tokens.queries, labels=tokens.labels)
    loss, lr = str(rng.choice(LOSSES)), 10.0 ** rng.uniform(-2, 0.5)
    judge = prover(tokens, head=v, optimizer=optimizer, lr=lr, loss=loss)
    direction = judge.geometry(alpha).direction
    wrong, tally = [], Counter()
    for size in () if direction is None else (10, 100, 1e3, 1e4, 1e6):
        noise = 10.0 ** rng.uniform(-4, -1) * rng.standard_normal(direction.shape)
        W = size * (direction + noise * np.abs(direction).max())
        proof = judge.prove(W, explain=False)
        tally[str(proof.theorem)] += 1
        if not proof.proved:
            continue
        if not proof.verify():
            wrong.append(f"seed {seed}, {optimizer}: not confirmed")
        u = proof.constants["u"]
        starts = [*members(proof.direction, [], u * (1 - 1e-6), p, rng, count=2), W / norm(W, p)]
        for x in starts[-2:]:
            for step in (lr, proof.longest_step):
                path = attsvm.train(
                    tokens,
                    head=v,
                    optimizer=optimizer,
                    lr=float(step),
                    steps=60,
                    loss=loss,
                    init={"W": x * norm(W, p)},
                )
                for later in path.weights["W"][:, 0]:
                    stays = (judge.selected(later) == proof.selection).all()
                    if not stays or cosine(later, proof.direction, p) < 1 - u * (1 + 1e-6) - 1e-9:
                        wrong.append(f"seed {seed}, {optimizer}, {loss}, step {step:g}: left")
                tally["runs"] += 1
    return wrong, tally


if __name__ == "__main__":
    found, total = [], Counter()
    for seed in range(int(sys.argv[1])):
        more, tally = tried(seed)
        found += more
        total += tally
    print(dict(total))
    print("\n".join(found) or "nothing is wrong")
    sys.exit(bool(found))

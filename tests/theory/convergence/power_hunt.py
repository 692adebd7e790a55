"""A hunt for false proofs of mirror descent: small instances of all kinds, and runs from there.

python -m tests.theory.convergence.power_hunt 220
"""

import sys
from collections import Counter

import numpy as np

import attsvm
from attsvm.theory.convergence.prove import prover
from tests.theory.convergence.power_members import cosine, instance, members, norm

POWERS = (1.1, 1.3, 1.5, 1.7, 1.9, 2.1, 2.5, 3, 4, 6)
LOSSES = ("logistic", "exponential", "linear")


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
    direction = judge.power_ground(alpha).direction
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

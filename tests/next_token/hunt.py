"""A hunt for false proofs on sentences: small random sets, decoders and vectors, and runs.

python -m tests.next_token.hunt 260
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from attsvm import ConvergenceProof, Sentences, Unsupported, train
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token.training.proofs import _prover
from attsvm.next_token.training.train import SentenceObjective
from attsvm.theory.convergence.prover import Prover


def try_proofs(seed: int) -> tuple[list[str], Counter[str]]:
    """(what is wrong, how often which theorem was proved) of one random set."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(4, 9))
    L = int(rng.integers(2, min(N, 5)))
    make = cyclic if seed % 5 == 4 and L > 2 else realizable
    count, queries = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    try:
        lines = make(N, L, count, seed, query_count=queries)
    except Unsupported:  # so many different ones do not exist
        return [], Counter()
    lines += [[line[0], *line] for line in lines if len(line) > 2 and rng.random() < 0.3]
    data = Sentences.of(lines)
    E = np.eye(N) if seed % 2 else rng.standard_normal((N, N)) * 10.0 ** rng.uniform(-1, 1)
    kw = {"readout": "mass" if seed % 3 == 0 else "softmax", "embedding": E}
    if kw["readout"] == "softmax":
        head = rng.uniform(0.3, 3) * rng.standard_normal((N, N))
        tokens = np.flatnonzero(data.follows >= 0)
        head[data.follows[tokens], tokens] += rng.uniform(0, 4)
        kw["head"] = head
    lr = 10.0 ** rng.uniform(-2, 0.3)
    judge = _prover(SentenceObjective.of(data, "next-token", **kw), "ngd", lr)
    start = rng.standard_normal((N, N))
    path = train(data, model="next-token", lr=lr, steps=400, init={"W_kq": start}, **kw)
    starts = [start, path.at(-1)["W_kq"][0]]
    for base in starts[:2]:
        direction = judge.geometry(judge.selected(base)).direction
        for size in () if direction is None else (3, 30, 300, 3000):
            starts.append(size * direction + rng.uniform() * rng.standard_normal((N, N)))
    wrong, tally = [], Counter()
    for W in starts:
        proof = judge.prove(W, explain=False)
        tally[str(proof.theorem)] += 1
        if not proof.proved:
            continue
        rows = judge.geometry(proof.selection).rows
        tally["with rows that pull away"] += int((rows.pull.limit.hi < 0).any())
        if not proof.verify():
            wrong.append(f"seed {seed}: not confirmed")
        for step in (lr, proof.longest_step):
            run = train(data, model="next-token", lr=float(step), steps=200, init={"W_kq": W}, **kw)
            tally["runs"] += 1
            if any(_left(proof, judge, later) for later in run.weights["W_kq"][:, 0]):
                wrong.append(f"seed {seed}, {kw['readout']}, {proof.theorem}, step {step:g}: left")
    return wrong, tally


def _left(proof: ConvergenceProof, judge: Prover, W: np.ndarray) -> bool:
    """Whether a later W has another selection, or is off its tube or cone."""
    size = np.linalg.norm(W) * np.linalg.norm(proof.direction)
    corr = (W * proof.direction).sum() / size
    if not (judge.selected(W) == proof.selection).all():
        return True
    if proof.theorem == "tube":
        return 1 - corr > proof.bound_at(W) * (1 + 1e-9) + 1e-12
    return corr < proof.constants["c0"] - 1e-9


if __name__ == "__main__":
    found, total = [], Counter()
    for seed in range(int(sys.argv[1])):
        more, tally = try_proofs(seed)
        found, total = found + more, total + tally
    print(dict(total))
    print("\n".join(found) or "nothing is wrong")
    sys.exit(bool(found))

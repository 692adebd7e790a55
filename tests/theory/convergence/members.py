"""Every inequality of the theorems, on members of the sets that proofs speak of.

    python -m tests.theory.convergence.members [PROOFS] [MEMBERS]

Members are random points, and points sought to break an inequality: on the boundary, towards every
better-scoring row and every nearly tight one, with long steps. The reference is that of
reference.py. Prints by how much each inequality holds at its narrowest; ends with 1 where one fails
by more than rounding.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np

from attsvm.theory.convergence.proof import ConvergenceProof
from tests.theory.convergence.instances import LOSSES, Run, runs
from tests.theory.convergence.reference import Case, Chosen, max_margin
from tests.theory.convergence.rooms import Narrowest, directions, room, turned
from tests.theory.convergence.tubes import tube_members

Array = Any


def cone_members(proof: ConvergenceProof, count: int, seed: int = 0) -> Narrowest:
    """The cone is kept by one step from so many members, its norm grows, margins hold."""
    case = Case.of(proof.tokens, proof.head, proof.loss)
    chosen = case.at(proof.selection)
    c = proof.constants
    if bool(proof.witness["exact"]):
        axis = max_margin(chosen.a).W
    else:
        axis = np.asarray(proof.witness["axis"], float).ravel()
        axis = axis / (chosen.a @ axis).min()
    N = np.linalg.norm(axis)
    slack = chosen.a @ axis - 1
    across = chosen.a - ((slack + 1) / N**2)[:, None] * axis
    rng = np.random.default_rng(seed)
    u = turned(directions(chosen, across, slack, count, rng), axis)
    cosine = np.where(np.arange(count) % 4 == 3, rng.uniform(c["c0"], 1, count), c["c0"])
    sine = np.sqrt((1 - cosine) * (1 + cosine)) * (np.linalg.norm(u, axis=1) > 0.5)
    cosine = np.where(np.linalg.norm(u, axis=1) > 0.5, cosine, 1.0)
    R = c["R"] * np.where(np.arange(count) % 3, 1.0, 1 + rng.exponential(0.5, count) ** 3)
    W = R[:, None] * (cosine[:, None] * axis / N + sine[:, None] * u)
    m = chosen.margins(W)
    base = m.min(axis=1)
    g = chosen.gradient(W, base)
    norm = np.linalg.norm(g, axis=1)
    found = {
        "margins": room(c["margin"], m.min(axis=1)),
        "corr of W": room(c["corr"], (proof.W.ravel() @ axis) / np.linalg.norm(proof.W) / N),
        "c₀ ≤ corr": room(c["c0"], c["corr"]),
        "R of W": room(c["R"], np.linalg.norm(proof.W)),
    }
    for size in (proof.lr, proof.longest_step):
        if proof.optimizer == "gd":
            h = size * norm * np.exp(-base)
        else:
            h = np.full(count, size)
        after = W + (h / norm)[:, None] * g
        word = "lr" if size == proof.lr else "longest"
        length = np.linalg.norm(after, axis=1)
        # Both sides times the length, so that rounding does not hide what a short step adds.
        corr = after @ axis / N - c["c0"] * length
        found[f"corr ≥ c₀, {word}"] = room(0.0, corr, length)
        found[f"norm grows, {word}"] = room(R, length)
        found[f"h ≥ ‖step‖, {word}"] = room(h, c["h"] * size / proof.lr)
    pull = (g @ axis) - c["c0"] * (W * g).sum(axis=1) / R * N
    edge = cosine <= c["c0"]
    found["turns inward"] = room(0.0, pull[edge], (norm * N)[edge])
    return Narrowest(found, count)


def level_members(proof: ConvergenceProof, count: int, seed: int = 0) -> Narrowest:
    """From the level set's boundary the loss does not rise for the longest step."""
    case = Case.of(proof.tokens, proof.head, proof.loss)
    chosen = case.at(proof.selection)
    rng = np.random.default_rng(seed)
    start = proof.W.ravel()
    level = proof.constants["excess"]
    own = float(chosen.excess(start[None])[0])
    across = chosen.a
    u = directions(chosen, across, chosen.a @ start, count, rng)
    low, high = np.zeros(count), np.full(count, 1.0)
    top = start * np.where(np.arange(count) % 3, 1.0, rng.uniform(1, 3, count))[:, None]
    for _ in range(40):
        outside = chosen.excess(top + high[:, None] * u) > level
        high = np.where(outside, high, 2 * high)
    high = np.minimum(high, 1e6)
    for _ in range(60):
        mid = 0.5 * (low + high)
        inside = chosen.excess(top + mid[:, None] * u) <= level
        low, high = np.where(inside, mid, low), np.where(inside, high, mid)
    low = low * np.where(np.arange(count) % 4, 1.0, rng.uniform(0, 1, count))
    W = top + low[:, None] * u
    before = chosen.excess(W)
    inside = before <= level * (1 + 1e-9)
    found = {
        "excess": room(own, level),
        "attention": room(0.5, _kept(chosen, W[inside]).min(axis=1)),
    }
    g = chosen.gradient(W)
    square = (g**2).sum(axis=1)
    curvature = proof.constants["curvature"]
    for word, size in (("lr", proof.lr), ("longest", proof.longest_step)):
        if not np.isfinite(size):
            continue
        after = chosen.excess(W + size * g)
        fall = len(chosen.alpha) * size * (1 - size * curvature / 2) * square
        found[f"the loss falls, {word}"] = room((after + fall)[inside], before[inside])
    t = 1e-3 / np.linalg.norm(chosen.a, axis=1).max()
    ahead = chosen.excess(W + t * u) + chosen.excess(W - t * u) - 2 * before
    bend = np.abs(ahead) / t**2 / len(chosen.alpha)
    deep = inside & (before < level * (1 - 1e-6))
    slack = 1e-9 * before / t**2 + 3 * t * curvature * np.linalg.norm(chosen.a, axis=1).max()
    found["curvature"] = room((bend - slack)[deep], curvature)
    return Narrowest(found, int(inside.sum()))


def _kept(chosen: Chosen, W: Array) -> Array:
    """The attention on the selected tokens (m, n)."""
    return 1 / (1 + chosen.spread(chosen.margins(W))[0])


def members(proof: ConvergenceProof, count: int, seed: int = 0) -> Narrowest:
    """The members of whatever a proof speaks of."""
    judged = {"tube": tube_members, "cone": cone_members, "level": level_members}
    return judged[proof.theorem or "tube"](proof, count, seed)


def proofs_of(run: Run) -> list[ConvergenceProof]:
    """The first proof of a run, and others of the same or a later W: the cone, and of plain
    descent the tube far out on the ray and the level."""
    first = run.first(every=2)
    if first is None:
        return []
    r, proof = first
    out = [proof]
    judge = run.judge
    far = run.W[-1]
    if judge.plain and proof.direction is not None:
        far = run.W[-1] + 40 * proof.direction
        again = judge.prove(far)
        out += [again] if again.proved else []
    for W in (run.W[r], far, 4 * far):
        W = np.ascontiguousarray(W)
        alpha = judge.selected(W)
        at = judge.ground(alpha)
        if at.rows is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            found = judge._cone(W / at.rows.unit, W, alpha, at)
        if found is not None:
            out.append(found)
            break
    if judge.plain:
        W = np.ascontiguousarray(run.W[-1])
        alpha = judge.selected(W)
        at = judge.ground(alpha)
        level = judge._level(W / at.rows.unit, W, alpha, at) if at.rows is not None else None
        if level is not None:
            out.append(level)
    return out


def many_proofs(count: int) -> list[tuple[str, ConvergenceProof]]:
    """So many proofs of every kind, loss and optimizer."""
    asked: list[tuple[str, dict[str, Any]]] = [
        (kind, {"loss": loss})
        for loss in LOSSES
        for kind in ("sphere", "correlated", "prompt", "masked", "keys")
    ]
    asked += [("gaussian", {"lr": 0.02})]
    asked += [("sphere", {"optimizer": "gd", "lr": lr, "steps": 40000}) for lr in (1.0, 50.0)]
    asked += [("sphere", {"shape": (2, 3, 3)}), ("sphere", {"lr": 0.2})]
    out: list[tuple[str, ConvergenceProof]] = []
    seed, step = 0, 3
    while len(out) < count and seed < 60:
        for kind, options in asked:
            for run in runs(kind, range(seed, seed + step), **options):
                name = " ".join([kind, *(f"{a}={b}" for a, b in options.items())])
                out += [(name, proof) for proof in proofs_of(run)]
            if len(out) >= 3 * count:
                break
        seed += step
    picked = np.random.default_rng(1).permutation(len(out))[:count]
    return [out[j] for j in picked]


def main() -> int:
    """Print the narrowest room of every inequality, by theorem."""
    given = [int(x) for x in sys.argv[1:3]]
    count, each = [*given, *(50, 1000)[len(given) :]]
    found: dict[str, Narrowest] = {}
    kinds: Counter[str] = Counter()
    wrong = 0
    for j, (name, proof) in enumerate(many_proofs(count)):
        judged = members(proof, each, seed=j)
        word = str(proof.theorem)
        if word == "tube":
            word += f" {proof.witness['mode']}"
        kinds[word] += 1
        found[word] = found[word].joined(judged) if word in found else judged
        if judged.broken:
            wrong += 1
            print(f"BROKEN: {name}: {word}: {[(b, judged.room[b]) for b in judged.broken]}")
    for word, judged in found.items():
        print(f"\n{word}: {kinds[word]} proofs, {judged.count} members")
        for name, least in judged.room.items():
            print(f"  {name:28s} {least: .2e}")
    print(f"\n{sum(kinds.values())} proofs, broken: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

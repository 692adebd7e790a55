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
from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm.theory.convergence.proof import ConvergenceProof
from tests.theory.convergence.cases import LOSSES, Run, runs
from tests.theory.convergence.reference import (
    Case,
    Chosen,
    Merged,
    Solved,
    least_offset,
    max_margin,
)

Array = Any


# What rounding may take from an inequality, relative to its larger side.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Narrowest:
    """How narrowly each inequality held: (right − left)/size, by name, over all members."""

    room: dict[str, float]
    count: int

    @property
    def broken(self) -> list[str]:
        """The inequalities that fail by more than rounding."""
        return [name for name, room in self.room.items() if not room >= -ROUNDING]

    def joined(self, other: Narrowest) -> Narrowest:
        """Both together."""
        names = [*self.room, *(name for name in other.room if name not in self.room)]
        room = {k: min(self.room.get(k, np.inf), other.room.get(k, np.inf)) for k in names}
        return Narrowest(room, self.count + other.count)


def room(left: Array, right: Array, size: Array | float = 0.0) -> float:
    """How far left ≤ right holds, relative to the larger side; −inf for what is not a number."""
    scale = np.maximum(np.maximum(np.abs(left), np.abs(right)), np.maximum(size, 1e-300))
    least = float(np.min((right - left) / scale, initial=np.inf))
    return -np.inf if np.isnan(least) else least


def lengths(x: Array) -> Array:
    """The lengths of the rows of x, at any scale."""
    top = np.maximum(np.abs(x).max(axis=1), 1e-300)
    return top * np.linalg.norm(x / top[:, None], axis=1)


def turned(u: Array, ray: Array) -> Array:
    """Vectors of length 1 or 0, exactly across the ray up to rounding."""
    along = ray / np.linalg.norm(ray)
    for _ in range(2):
        u = u - (u @ along)[:, None] * along
        length = np.linalg.norm(u, axis=1, keepdims=True)
        u = u / np.where(length > 0.5, length, np.inf)
    return u


def directions(chosen: Chosen | Merged, across: Array, slack: Array, count: int, rng: Any) -> Array:
    """Unit vectors among the rows' parts across the ray: against bad and nearly tight rows, random,
    and mixtures (count, D)."""
    k = len(across)
    bad = (chosen.limit <= 0).nonzero()[0]
    near = np.argsort(slack)[: max(4, k // 4)]
    pool = np.concatenate([bad, near])
    _, s, V = np.linalg.svd(across, full_matrices=False)
    V = V[s > 1e-9 * np.linalg.norm(chosen.a, axis=1).max()]
    out = []
    for j in range(count):
        kind = j % 5
        if kind == 0:
            u = -across[pool[(j // 5) % len(pool)]]
        elif kind == 1:
            u = rng.standard_normal(k) @ across
        elif kind == 2:
            u = -across[rng.choice(pool)] + rng.uniform(0, 1) * across[rng.integers(k)]
        elif kind == 3:
            weight = np.zeros(k)
            weight[pool] = -rng.exponential(size=len(pool))
            u = weight @ across
        else:
            u = rng.standard_normal(len(V)) @ V
        out.append(u)
    found = np.array(out)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    least = 1e-9 * np.linalg.norm(chosen.a, axis=1).max()
    return found / np.where(length > least, length, np.inf)


@dataclass(frozen=True, eq=False)
class TubeSeen:
    """A tube as the reference sees it: rows, solution, ρ, P⋆, Ẑ, and what the proof prints."""

    chosen: Merged
    solved: Solved
    rho: float
    own: float
    P: Array
    star: Array
    Z: float
    c: dict[str, float]
    mode: str

    @property
    def across(self) -> Array:
        """a_k⊥ (k, D)."""
        ray = self.solved.W / self.solved.N
        return self.chosen.a - (self.chosen.a @ ray)[:, None] * ray

    @property
    def slack(self) -> Array:
        """⟨a_k, Ŵ⟩ − 1."""
        found = self.chosen.a @ self.solved.W - 1
        found[self.solved.C] = 0.0
        return np.maximum(found, 0.0)

    @property
    def good(self) -> Array:
        return self.chosen.limit > 0

    def theta(self, rho: Array) -> Array:
        """Σ θ_k(ρ) (m,)."""
        free = self.good.copy()
        free[self.solved.C] = False
        log = np.log(self.chosen.limit[free] / self.Z) - self.chosen.a[free] @ self.star
        return np.exp(log - np.asarray(rho)[:, None] * self.slack[free])


def seen(proof: ConvergenceProof) -> TubeSeen:
    """The tube of a proof, computed again by other means."""
    case = Case.of(proof.tokens, proof.head, proof.loss)
    chosen = Merged(case.at(proof.selection))
    solved = max_margin(chosen.a)
    W = proof.W.ravel()
    rho = float(W @ solved.W) / solved.N**2
    P = W - rho * solved.W
    C = chosen.a[solved.C]
    low, Z = least_offset(C, chosen.limit[solved.C], solved.W)
    _, s, V = np.linalg.svd(C, full_matrices=False)
    V = V[s > 1e-11 * s.max()]
    rest = P - (P @ V.T) @ V
    star = low + rest
    i, t = chosen.names
    where = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(i, t, strict=True))}
    assert {(int(a), int(b)) for a, b in proof.witness["tight"]} <= set(where)
    for name, kappa in zip(proof.witness["shifted"], proof.witness["shift"], strict=True):
        a = chosen.a[where[int(name[0]), int(name[1])]]
        star = star + kappa * (a - (a @ V.T) @ V)
    constants = {k: float(x) for k, x in proof.constants.items()}
    mode = str(proof.witness["mode"])
    return TubeSeen(chosen, solved, constants["rho"], rho, P, star, Z, constants, mode)


def tube_members(proof: ConvergenceProof, count: int, seed: int = 0) -> Narrowest:
    """Every inequality of the tube on so many members, and on short runs from its inner ball."""
    t = seen(proof)
    c, chosen, ray, N = t.c, t.chosen, t.solved.W, t.solved.N
    rng = np.random.default_rng(seed)
    u = turned(directions(chosen, t.across, t.slack, count, rng), ray)
    radius = c["D"] * np.where(np.arange(count) % 7 == 6, rng.uniform(0, 1, count), 1.0)
    more = rng.exponential(0.5, count) ** 3 * min(1.0, 20 / t.rho)
    rho = t.rho * np.where(np.arange(count) % 3, 1.0, 1 + more)
    P = t.star + radius[:, None] * u
    W = rho[:, None] * ray + P
    m = chosen.margins(W)
    found = {
        "rho": room(c["rho"], t.own),
        "‖Ŵ‖": room(N, c["N"]),
        "‖P⋆‖": room(np.linalg.norm(t.star), c["star"]),
        "‖P − P⋆‖": room(np.linalg.norm(t.P - t.star), c["D0"], np.linalg.norm(t.P)),
        "margins": room(c["margin"], m.min(axis=1)),
        "rate": room((P**2).sum(axis=1) / (2 * N**2), c["rate"]),
    }
    q, q_hat = chosen.q(m), chosen.limit
    base = m.min(axis=1)
    weight = np.exp(base[:, None] - m)  # everything below is scaled by e^base
    S = (weight * q_hat * t.good).sum(axis=1)
    g = (weight * q) @ chosen.a
    E = (weight * (chosen.off(m) + q_hat * ~t.good)) @ chosen.a
    along = g @ ray
    E = E - (E @ ray)[:, None] * ray / N**2
    # In mode B also the good rows that are not tight are counted in π.
    fading = ~t.good
    if t.mode == "B":
        fading = np.ones(len(t.slack), dtype=bool)
        fading[t.solved.C] = False
    least = np.min(t.slack[fading], initial=1.0)
    fade = np.exp(-min(least, 1.0) * (rho - t.rho))
    found["S ≥ Ẑe^−ρ"] = room(t.Z * np.exp(np.minimum(base - rho, 700)), S)
    found["‖E⊥‖ ≤ Sπ"] = room(lengths(E), S * c["pi"] * fade)
    found["⟨g, Ŵ⟩ ≥ S(1−β)"] = room(S * (1 - c["beta"]), along)
    theta = t.theta(rho)
    found |= _sums(t)
    for size in (proof.lr, proof.longest_step):
        found |= _steps(t, proof, size, (P, g, base, theta.sum(axis=1), fade))
    found["runs stay"] = _stay(t, proof, min(count, 60), rng)
    return Narrowest(found, count)


def _sums(t: TubeSeen) -> dict[str, float]:
    """Θ and the better-scoring rows' part of Π are at least their definitions; D² is enough."""
    c, N, slack = t.c, t.solved.N, t.slack
    length = np.linalg.norm(t.across, axis=1)
    free = t.good.copy()
    free[t.solved.C] = False
    theta = t.theta(np.array([t.rho]))[0]
    rounded = slack + 1e-14 * (1 + np.linalg.norm(t.chosen.a, axis=1) * N)
    tail = 1 / rounded + c["h"] / N
    bad = t.chosen.limit < 0
    log = -t.rho * slack[bad] - t.chosen.a[bad] @ t.star + length[bad] * c["D"]
    b = -t.chosen.limit[bad] / t.Z * np.exp(log)
    Pi = (b * length[bad] * tail[bad]).sum()
    out = {}
    if t.mode == "A":
        out["Θ"] = room((theta * tail[free]).sum(), c["Theta"])
    else:
        Pi += (theta * length[free] * tail[free]).sum()
    out["Π"] = room(Pi, c["Pi"])
    left = 1 - c["beta"]
    more = c["h"] * N / left * (1 + 1 / c["omega"]) * c["pi"] * c["Pi"]
    need = c["D0"] ** 2 + N**2 / left * (2 * c["Theta"] + 2 * c["D"] * c["Pi"] + more)
    out["D²"] = room(need + 2 * c["D"] * c["errors"], c["D"] ** 2)
    return out


def _steps(
    t: TubeSeen, proof: ConvergenceProof, size: float, at: tuple[Array, ...]
) -> dict[str, float]:
    """One step of length h from every member."""
    P, g, base, theta, fade = at
    c, ray, N = t.c, t.solved.W, t.solved.N
    norm = np.linalg.norm(g, axis=1)
    longest = c["h"] * size / proof.lr
    if proof.optimizer == "gd":
        h = size * norm * np.exp(-base)
    else:
        h = np.full(len(P), size)
    times = 1.0 if t.mode == "A" else 2.0
    left = 1 - c["beta"]
    omega = min(times * left / max(longest * N * c["L"], 1e-300) - 1, 1e6)
    step = (h / norm)[:, None] * g
    moved = step @ ray / N**2
    step = step - moved[:, None] * ray
    apart = P - t.star
    farther = 2 * (apart * step).sum(axis=1) + (step**2).sum(axis=1)
    pi = c["pi"] * fade
    bracket = 2 * theta * (t.mode == "A") + 2 * pi * c["D"]
    bracket = bracket + longest * N / left * (1 + 1 / omega) * pi**2
    word = "lr" if size == proof.lr else "longest"
    out = {
        f"one step, {word}": room(farther, N**2 * moved / left * bracket, (c["D"] + h) ** 2),
        f"h ≥ ‖step‖, {word}": room(h, longest),
        f"Δρ ≤ h/N, {word}": room(moved, h / N),
        f"L of the step, {word}": room(0.0, omega),
    }
    if proof.optimizer == "ngd":
        out[f"Δρ ≥ growth, {word}"] = room(c["growth"] * size / proof.lr, moved)
    return out


def _stay(t: TubeSeen, proof: ConvergenceProof, count: int, rng: Any, steps: int = 60) -> float:
    """Runs of steps of the longest length from the ball of radius ‖P − P⋆‖ stay within D.

    Steps of a thousand times ‖W‖ are as long as floats can tell from their rounding.
    """
    ray, N = t.solved.W, t.solved.N
    u = turned(directions(t.chosen, t.across, t.slack, count, rng), ray)
    W = t.own * ray + t.star + np.linalg.norm(t.P - t.star) * u
    worst = np.inf
    longest = min(proof.longest_step, 1e3 * float(np.linalg.norm(proof.W)))
    for _ in range(steps):
        base = t.chosen.margins(W).min(axis=1)
        g = t.chosen.gradient(W, base)
        norm = np.linalg.norm(g, axis=1, keepdims=True)
        if proof.optimizer == "gd":
            W = W + proof.longest_step * np.exp(-base)[:, None] * g
        else:
            W = W + longest * g / norm
        P = W - (W @ ray)[:, None] * ray / N**2
        # Long steps are rounded by more than a thin tube is wide.
        off = np.linalg.norm(P - t.star, axis=1) - 1e-13 * np.linalg.norm(W, axis=1)
        worst = min(worst, room(off, t.c["D"]))
    return worst


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
        found = judge.prove(np.ascontiguousarray(W), explain=False, only="cone")
        if found.proved:
            out.append(found)
            break
    level = judge.prove(np.ascontiguousarray(run.W[-1]), explain=False, only="level")
    return [*out, level] if level.proved else out


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

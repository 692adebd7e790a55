"""The tube of a proof as the reference sees it, and its inequalities on members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attsvm.theory.convergence.proof import ConvergenceProof
from tests.theory.convergence.reference import Case, Merged, Solved, least_offset, max_margin
from tests.theory.convergence.rooms import Narrowest, directions, lengths, room, turned

Array = Any


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

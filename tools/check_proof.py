"""Recheck saved proofs of convergence of attsvm: python tools/check_proof.py FILE...

NumPy reads a file; fractions and decimals with directed rounding check it, nothing of attsvm is
imported. Floats are the rationals they are. Row k = (i, t), t not the kept token α of input i, is
a_k = (key_iα − key_it) query_iᵀ, its margin m_k = ⟨a_k, W⟩, and gap_k = γ_iα − γ_it, γ = y v·x;
equal rows are one. With o_i = Σ e^−m and f_i the head's value, gradient descent moves W along
    g = Σ q_k e^−m_k a_k,   q_k = |ℓ'(f_i)| (f_i − γ_it)/((1 + o_i) n) → q̂_k = |ℓ'(γ_iα)| gap_k/n.
The claim: from W on, for all steps of length at most lr, or longest_step (optimizer ngd), or of
that η (optimizer gd), every margin stays positive and the direction of W tends to the max-margin
solution Ŵ. tube:  Ŵ = Σ_C λ_k a_k with λ = G⁻¹1 > 0 and slack_k = ⟨a_k, Ŵ⟩ − 1 > 0 off C (≥ 0 where
q̂_k = 0),
    exactly; W = ρŴ + P stays within D of P⋆, the minimiser of Σ_C q̂_k e^−⟨a_k, P⟩ moved off the
    span of C; D² ≥ need, the inequality of mode A or B; 1 − corr ≤ rate/ρ².
cone:  corr(W', W̃) ≥ c0 and ‖W'‖ ≥ R is kept; W̃ is Ŵ, or any W̃ with all margins ≥ 1.
level: n(L(W) − L⋆) = excess < allowed keeps more than half of the attention on the best tokens, and
    η < 2/curvature keeps the loss falling.
Every printed constant must be a bound on its safe side, or one that is used as it stands. Floats:
step t in floats is taken to err by at most 2⁻⁵³ (2 + 2 h N max‖a_k‖ x)(‖W‖ + t h), where
    x = 2 (d + dq + T + 16) max‖key‖ max‖query‖ + (d + 4) max(|x_α − x_t|·|v| / gap)/‖W‖
is the error of logits and of gaps; those of float_steps steps must add up to at most `errors`.
Each bound below is a real number between two decimals, and a comparison of such numbers holds only
if it holds for all that they may be: too few digits refuse a file and never pass it.
Exit code: 0 when every claim holds, 5 when one is false or not proved, 2 for an unreadable file.
"""

import math
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from proof_parts.axis import active, axis_of, near_solution, squared_distance
from proof_parts.file import read
from proof_parts.reals import (
    Real,
    array,
    bend,
    exp,
    integers,
    largest,
    ln,
    loss_value,
    need,
    real,
    slope,
    smallest,
    sqrt,
)
from proof_parts.rows import between, error_of, mixed, rows_of, smooth, spread

# On which side of the truth each constant must be; "=" is a number that is used as it stands.
SIDES = {
    "tube": "D= errors= L= rho- margin- growth- omega- D0+ star+ N+ h+ beta+ pi+ Pi+ Theta+ need+ "
    "rate+",
    "cone": "c0= R= corr- slope- margin- N+ h+ beta+ epsilon+ turn+ over+ tilt+ wide+",
    "level": "allowed- excess+ curvature+",
}


def compare(f: SimpleNamespace, truth: dict[str, object]) -> None:
    """Every printed constant is on the safe side of the truth, and near it where it is a place."""
    sides = {word[:-1]: word[-1] for word in SIDES[f.theorem].split()}
    need({*sides} == {*f.constants}, "the constants are not those of the theorem")
    for name, value in truth.items():
        said, side = f.constants[name], sides[name]
        holds = value <= said if side == "+" else value >= said
        need(holds, f"{name} is said to be {float(said)!r}, which is too good")
    for name in {"rho", "D0", "star", "N", "corr"} & {*truth}:
        off = truth[name] - f.constants[name]
        size = abs(f.constants[name])
        if name in ("D0", "star"):  # differences of numbers as large as W: floats lose digits
            size = f.constants["D"] + abs(f.constants["rho"]) * f.constants["N"] / 10**5
        close = -size <= off * 10**6 and off * 10**6 <= size
        need(close, f"{name} is said to be {float(f.constants[name])!r}, which is not what it is")


def steps_of(f: SimpleNamespace) -> tuple[Fraction, Fraction]:
    need(0 < f.lr <= f.longest_step < math.inf, "lr and longest_step are not steps in this order")
    return Fraction(f.lr), Fraction(f.longest_step)


def tube(f: SimpleNamespace) -> str:
    r = rows_of(f)
    a, said = active(r), f.constants
    C, off, N, N2 = a.C, a.off, a.N, a.square
    good = r.limit > 0
    need(good[C].all(), "a tight row does not score less than the kept token")
    need(f.mode in "AB" and len(f.mode) == 1, "the mode is neither A nor B")
    D, E = Fraction(f.D), Fraction(f.errors)
    need(said["D"] == D and said["errors"] == E and E >= 0, "D and errors are not as printed")
    across = array(sqrt(g - b * b / N2) for g, b in zip(r.G.diagonal(), a.grown, strict=True))
    # Where W stands: P⋆ = W − Σ coef_k a_k has ⟨a_k, P⋆⟩ = τ_k on C.
    rho, share = sum(a.lam * r.m[C]) / N2, a.lam / N2
    log_ratio = array(map(ln, r.limit[C] / share))
    log_Z = sum(share * log_ratio)
    tau = log_ratio - log_Z
    miss = r.m[C] - rho - tau
    back = a.inverse @ miss
    J = [r.name[int(i), int(t)] for i, t in f.shifted]
    kappa = array(f.shift.tolist())
    moved = array([0] * r.count) + (r.G[:, J] @ kappa if J else 0)  # ⟨a_k, Σ κ_j a_j⟩
    y = a.inverse @ moved[C]
    moved = moved - r.G[:, C] @ y
    at = r.m - a.grown * rho - r.G[:, C] @ back + moved
    at[C] = tau
    coef = array([0] * r.count)
    coef[C] = a.lam * rho + back + y
    for j, x in zip(J, kappa, strict=True):
        coef[j] = coef[j] - x
    star = sqrt(r.W2 - 2 * sum(coef * r.m) + sum(coef * (r.G @ coef)))
    D0 = sqrt(sum(miss * back) + sum(kappa * moved[J]))
    need(D0 <= D, "W is not in the tube: D is less than its distance from P⋆")
    # All of the tube, from ρ less the rounding errors on.
    low = rho - E / N
    margin = a.grown * low + at - across * D
    need((margin > 0).all(), "a margin may vanish in the tube")
    e = array(map(exp, -margin))
    error = error_of(r, e)
    near = array(map(exp, -(a.slack * low) - at - log_Z))
    far = near * array(map(exp, across * D))
    theta = np.where(off & good, near * r.limit, real(0))
    size = array(largest([x, -x]) for x in r.limit)
    b = np.where(good | r.zero, real(0), size * far)
    beta = sum(b * a.grown) + mixed(r, good, error * a.grown, far)
    drift = mixed(r, good, error * across, far)
    pi = sum(b * across) + drift
    need(beta < 1, "beta is not below 1")
    room, speed = 1 - beta, largest(r.length[good]) + pi + beta / N
    local = theta + 0
    local[C] = share
    smooth(r, a, local * array(map(exp, across * D)), across, np.flatnonzero(good))
    pi_B, times = (pi + sum(theta * across), 2) if f.mode == "B" else (pi, 1)
    for length in reversed(steps_of(f)):  # the last is that of the constants
        h = length
        if f.optimizer == "gd":
            h = length * speed * sum((r.limit * e)[good])
        tail = array(1 / s + h / N if out and not none else 0 for s, out, none in
                     zip(a.slack, off, r.zero, strict=True))  # fmt: skip
        Pi, Theta = sum(b * across * tail) + drift * (1 + h / N), sum(theta * tail)
        if f.mode == "B":
            Pi, Theta = Pi + sum(theta * across * tail), real(0)
        stiff, rest, omega = h * N * said["L"], real(1), real(0)
        if said["L"]:
            omega = times * room / stiff - 1
            need(omega > 0, f"the step {float(length):.6g} is too long for the tube")
            rest = 1 + 1 / omega
        wanted = D0 * D0 + N2 / room * (2 * Theta + 2 * D * Pi + h * N / room * rest * pi_B * Pi)
        wanted = wanted + 2 * D * E + E * E
        need(wanted <= D * D, f"the tube needs a larger D for the step {float(length):.6g}")
    growth = length * room / (N2 * speed) if f.optimizer == "ngd" else 0
    need(said["omega"] > 0, "omega is not positive")
    compare(f, {
        "rho": low, "D0": D0, "star": star, "N": N, "h": h, "beta": beta, "pi": pi_B, "Pi": Pi,
        "omega": omega if said["L"] else said["omega"], "Theta": Theta, "need": wanted,
        "margin": smallest(margin), "rate": (star + D) * (star + D) / (2 * N2), "growth": growth,
    })  # fmt: skip
    near_solution(squared_distance(r, a), N)
    (keys, k), (z, q) = integers(f.keys), integers(f.queries)
    width = f.W.shape[0] + f.W.shape[1] + f.T + 16
    most = sqrt(Fraction((keys**2).sum(axis=2).max() * (z**2).sum(axis=1).max(), (k * q) ** 2))
    (X, x), (v, u), blur, count = integers(f.X), integers(f.head), Fraction(1), f.float_steps
    for (i, t), g in zip(r.name, r.gap, strict=True):
        apart = abs(X[f.source[i], f.selection[i]] - X[f.source[i], t]) @ abs(v)
        blur = max(blur, Fraction(apart, x * u) / g) if g > 0 else blur
    off_by = 2 * width * most + (X.shape[2] + 4) * blur / sqrt(r.W2)
    drift = (2 + 2 * h * N * largest(r.length) * off_by) * Fraction(1, 2**53)
    used = drift * (sqrt(r.W2) * count + h * count * count / 2)
    need(count >= 0 and used <= E, f"float_steps is {count}, more than the rounding allows")
    return (
        f"tube, mode {f.mode}: 1 - corr <= {float(said['rate']):.6g}/rho^2, rho >= "
        f"{float(said['rho']):.6g}, steps up to {f.longest_step:.6g}"
    )


def cone(f: SimpleNamespace) -> str:
    r = rows_of(f)
    x, said, c, R = axis_of(r), f.constants, Fraction(f.c0), Fraction(f.R)
    need(c == said["c0"] and said["R"] == R, "c0 and R are not as printed")
    corr, N = x.along / (sqrt(r.W2) * x.N), x.N
    need(0 < c < 1 and corr >= c and R > 0 and R * R <= r.W2, "W is not in the cone")
    across = array(sqrt(g - b * b / x.square) for g, b in zip(r.G.diagonal(), x.grown, strict=True))
    # On the cone W' = r' (c' W̃ + s' N u) with u ⟂ W̃, ‖u‖ = 1, c' ≥ c0, s' ≤ sine, r' ≥ radius.
    sine, radius, wide = sqrt(1 - c * c), R / N, across * N
    least = x.grown * c - wide * sine
    need((least > 0).all(), "a margin may vanish in the cone")
    e = array(map(exp, -(least * radius)))
    low, high = between(r, e)
    good = low > 0
    need(good[x.held].all(), "a row with a multiplier may pull the wrong way")
    log_Z = sum(x.mu[k] * ln(low[k] / x.mu[k]) for k in np.flatnonzero(x.held))
    ahead = x.slack * c - (wide + x.tilt) * sine - x.over
    doubt = sqrt(x.wide * x.wide - 1) if not f.exact else real(0)
    bad = np.flatnonzero(~good)
    for k in bad:
        enough = ahead[k] > doubt and x.slack[k] > r.length[k] * N * doubt / x.wide
        need(enough, "a row that pulls the wrong way is too near to the tight ones")
    damp = {k: exp(-(ahead[k] * radius) - log_Z) for k in range(r.count)}
    B = {k: largest([low[k], -low[k], high[k], -high[k]]) * damp[k] for k in bad}
    beta = sum((B[k] * x.grown[k] for k in bad), real(0))
    wider = sum((B[k] * (x.grown[k] + wide[k] * sine) for k in bad), real(0))
    A = largest(r.length[good]) + sum(B[k] * r.length[k] for k in bad)
    need(
        beta < 1 and wider < smallest(least[good]),
        "the rows that pull the wrong way are too strong",
    )
    # r' Σ p v ≤ r' v⋆ + ln Σ_in q̄ − ln Z + Σ_out (1 + x_k) q̄_k e^(−x_k − ln Z), for any set of good
    # rows without multipliers that is taken out; here each of the sets of those farthest ahead.
    out = [k for k in np.flatnonzero(good & ~x.held) if ahead[k] >= 0]
    inside, rest, found = sum(high[good]), real(0), []
    for k in [*sorted(out, key=lambda k: -ahead[k].lo), None]:
        found.append(largest([ln(inside) - log_Z, 0]) + rest)
        if k is not None:
            inside, rest = inside - high[k], rest + high[k] * damp[k] * (1 + ahead[k] * radius)
    epsilon = smallest(found) / radius + wider
    room = 1 - beta - c * (c * (1 + x.over) + sine * x.tilt + epsilon)
    for length in reversed(steps_of(f)):  # the last is that of the constants
        h = length
        if f.optimizer == "gd":
            h = length * A * sum((high * e)[good])
        turn = h * c * N * A / (2 * R)
        fits = (1 - beta) * R >= h * c * (1 + x.over) and room >= turn
        need(fits, f"the inequality of the cone does not hold for the step {float(length):.6g}")
    compare(f, {
        "corr": corr, "N": N, "h": h, "beta": beta, "epsilon": epsilon, "slope": room, "turn": turn,
        "margin": smallest(least * radius), "over": x.over, "tilt": x.tilt, "wide": x.wide,
    })  # fmt: skip
    need(f.float_steps == 0, "the cone speaks of exact steps alone, float_steps is not 0")
    return f"cone: corr >= {float(c):.9g}, steps up to {f.longest_step:.6g}"


def level(f: SimpleNamespace) -> str:
    r = rows_of(f)
    axis_of(r)
    need(f.optimizer == "gd", "the loss level is for optimizer gd")
    need(all(g > 0 for g in r.gap), "a kept token does not score more than all others")
    e, excess, falls, parts = array(map(exp, -r.m)), real(0), [], []
    for i, (lost, _, o, _) in enumerate(spread(r, e)):
        gaps = [g for j, g in zip(r.owner, r.gap, strict=True) if j == i]
        if gaps:
            top, phi = r.top[i], lost / (1 + o)
            by_value = loss_value(f.loss, top - phi) - loss_value(f.loss, top)
            excess = excess + smallest([by_value, phi * slope(f.loss, top - phi)])
            half = min(gaps) / 2
            falls.append(loss_value(f.loss, top - half) - loss_value(f.loss, top))
    for i in sorted({*r.owner}):
        # Where Σ ℓ(f) − ℓ(γ) ≤ excess: φ = γ − f ≤ lead × the input's share of it (the losses here
        # are convex, so that |ℓ'| from f to γ is least at γ), attention off
        # the best token is w ≤ φ/gap, |f'| ≤ reach φ (1 + w) and |f''| ≤ reach² φ (1 + w + w²).
        gaps = [g for j, g in zip(r.owner, r.gap, strict=True) if j == i]
        top, lead = r.top[i], excess / slope(f.loss, r.top[i])
        phi = smallest([lead, max(gaps)])
        w, at = smallest([phi / min(gaps), Fraction(1, 2)]), Real((top - phi).lo, top.hi)
        steep = slope(f.loss, at)
        turn = bend(f.loss, at) * phi * (1 + w) * (1 + w) + Real(steep.hi, steep.hi) * (
            1 + w + w * w
        )
        parts.append(lead * turn * reach(f, i) / f.n)
    curvature = largest(parts)
    need(excess < smallest(falls), "the loss is not below its level")
    need(all(curvature * eta < 2 for eta in steps_of(f)), "a step is not below 2/curvature")
    compare(f, {"excess": excess, "allowed": smallest(falls), "curvature": curvature})
    need(f.float_steps == 0, "the level speaks of exact steps alone, float_steps is not 0")
    return f"level: steps up to {f.longest_step:.6g}"


def reach(f: SimpleNamespace, i: int) -> Fraction:
    """The squared distance of two keys of an input at most, times that of its query from 0."""
    (keys, k), (z, q) = integers(f.keys[f.source[i], f.mask[i]]), integers(f.queries[i])
    apart = ((keys[:, None] - keys[None]) ** 2).sum(axis=2).max()
    return Fraction(apart * (z**2).sum(), (k * q) ** 2)


def check(f: SimpleNamespace) -> str:
    """What the file proves."""
    need(f.theorem, "nothing is claimed to be proved")
    try:
        return {"tube": tube, "cone": cone, "level": level}[f.theorem](f)
    except (AttributeError, KeyError) as error:
        raise ArithmeticError(f"the witness is not that of the theorem ({error})") from error


if __name__ == "__main__":
    sys.set_int_max_str_digits(0)
    code = 0
    for path in sys.argv[1:]:
        try:
            print(f"{path}: OK, {check(read(path))}")
        except Exception as error:  # whatever happens, the file does not pass
            word, now = ("FALSE", 5) if isinstance(error, ArithmeticError) else ("UNREADABLE", 2)
            print(f"{path}: {word}, {error}")
            code = max(code, now)
    sys.exit(code if sys.argv[1:] else __doc__)

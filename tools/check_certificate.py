"""Recheck saved certificates of attsvm: python tools/check_certificate.py FILE...

NumPy reads a file, integers and fractions check it, nothing of attsvm is imported. Floats are the
rationals they are; row k is A_k = (keys[hi_k] − keys[lo_k]) queries[query_k]ᵀ, exactly (lo = −1
subtracts nothing). The claim is lower ≤ least norm ≤ upper for the problem
    min ‖W‖   s.t.   ⟨A_k, W⟩ ≥ b_k  (margins, b ≥ 0),     |⟨A_l, W⟩ − c_l| ≤ c_error_l  (ties)
lower: multipliers λ ≥ 0 and μ give G = Σ λ_k A_k + Σ μ_l A_l, and every feasible W has
    worth = Σ bλ + Σ cμ − Σ c_error|μ| ≤ ⟨G, W⟩ ≤ ‖G‖_dual ‖W‖.  So lower ≤ worth/‖G‖_dual.
upper: the norm of W, moved by the least Frobenius change so that ties and margins hold exactly. If
    all c and c_error are 0, only margins with b = 0 need the move: W is then scaled to the others.
budget C < ∞ (soft margin): the bounds are of ½‖W‖² + C Σ max(0, b_k − ⟨A_k, W⟩) under the ties:
    lower ≤ worth − ½‖G‖²_dual with 0 ≤ λ ≤ C, and upper ≥ that value at W moved on to the ties.
optimal: upper ≤ lower (1 + tolerance). infeasible, proof exact: integers (`farkas`) in place of
    (λ, μ) have G = 0 and worth > 0: no W exists. Proof numerical: lower, and G = 0 to rounding.
Norms are bounded from above by rationals, so an error in them refuses a file and never passes it.
Exit code: 0 when every claim holds, 5 when one is false or not proved, 2 for an unreadable file.
"""

import math
import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

Array = np.ndarray
BITS = 192  # kept where roots and powers are rounded up
DUAL = dict(frobenius="frobenius", nuclear="spectral", spectral="nuclear", l1="max", max="l1")
STATUS = {"optimal": ("",), "stalled": ("",), "infeasible": ("exact", "numerical")}
# Arrays by type and axes; equal letters are equal lengths (m margins, l ties, W is d x q).
ARRAYS = """f:nd keys; f:gq queries; f:dq W; i:m hi lo query; i:l tie_hi tie_lo tie_query; f:m b
    multipliers; f:l c c_error tie_multipliers; f: lower upper tolerance budget residual; i: width;
    U: norm status proof; U:k farkas"""
exact = np.vectorize(Fraction, otypes=[object])  # an array of floats as fractions


def need(fact: object, sentence: str, code: int = 1) -> None:
    """Raises unless the fact holds; code 1: a claim is false, 2: the file is unreadable."""
    if not fact:
        raise (ArithmeticError if code == 1 else ValueError)(sentence)


def read(path: str) -> SimpleNamespace:
    """The arrays of a file: of the right types, finite, in range, and fitting each other."""
    file = dict(np.load(path, allow_pickle=False))
    version, size = file.get("attsvm_certificate", np.array("missing")).tolist(), {}
    need(version == 1, f"attsvm_certificate, the format version, is {version} and not 1", 2)
    groups = [group.split() for group in ARRAYS.split(";")]
    for name, (kind, axes) in ((n, group[0].split(":")) for group in groups for n in group[1:]):
        need(name in file, f"the array {name} is missing", 2)
        a, at = file[name], dict(zip(axes, file[name].shape, strict=False))
        fits = all(size.setdefault(x, at[x]) == at[x] for x in at) or (name, a.size) == ("W", 0)
        right = a.dtype.kind == kind and (kind == "U" or a.itemsize == 8) and a.ndim == len(axes)
        need(fits and right, f"{name} is {a.dtype} of shape {a.shape}", 2)
        need(not axes or kind != "f" or np.isfinite(a).all(), f"{name} is not finite", 2)
        file[name] = a if axes else a.item()
    for name, pool in (("hi", "keys"), ("lo", "keys"), ("query", "queries")):
        i = file[name] = np.append(file[name], file[f"tie_{name}"])  # margins, then ties
        need(np.all((i >= -(name == "lo")) & (i < len(file[pool]))), f"{name} is out of range", 2)
    for name in ("b", "c_error", "tolerance", "budget"):
        need(np.all(file[name] >= 0), f"{name} is negative or no number", 2)
    need(file["proof"] in STATUS.get(file["status"], ()), f"the status is {file['status']!r}", 2)
    power = (norm := file["norm"])[:1] == "l" and norm[1:].replace(".", "", 1).isdecimal()
    known = norm in DUAL or (power and len(norm) < 16 and Fraction(norm[1:]) > 1)
    need(known, f"the norm is {norm!r}, unknown here; attsvm certify FILE --norm takes any", 2)
    return SimpleNamespace(**file)


def integers(array: Array) -> tuple[Array, int]:
    """Floats or fractions as integers over one positive denominator, exactly."""
    pairs = [x.as_integer_ratio() for x in array.ravel().tolist()]
    below = math.lcm(*(d for _, d in pairs))
    return np.array([n * (below // d) for n, d in pairs], object).reshape(array.shape), below


def product(A: Array, x: Array) -> Array:
    """A x for a matrix of integers and a vector of fractions."""
    N, below = integers(x)
    return A @ N * Fraction(1, below)


def moved(A: Array, low: Array, high: Array, w: Array, held: Array, tie: Array) -> Array:
    """w with the least change after which, on the rows held, low ≤ A w, and A w ≤ high on ties."""
    now, start, active = w, product(A, w), []
    for _ in range(10):
        value = product(A, now)
        if not len(wrong := np.flatnonzero(held & ((value < low) | tie & (value > high)))):
            return now
        # Ties first, then rows just missed: of dependent rows the later ones give way.
        active = sorted({*wrong, *active}, key=lambda k: (not tie[k], k not in wrong))
        rows, goal = A[active], np.minimum(np.maximum(start, low), high)
        now = w + product(rows.T, solved(rows @ rows.T, (goal - start)[active]))
    raise ArithmeticError("no matrix was found near W that meets ties and margins exactly")


def solved(gram: Array, right: Array) -> Array:
    """y with gram y = right, and y_i = 0 where row i depends on the rows before it."""
    r, below = integers(right)  # Bareiss' elimination: all entries are minors, divisions are exact
    M, last, used, y = np.column_stack([gram, r]), 1, [], 0 * r
    for i in range(len(r)):
        if M[i, i]:  # 0 where the row depends on others, for M is positive semidefinite
            M[i + 1 :] = (M[i + 1 :] * M[i, i] - np.outer(M[i + 1 :, i], M[i])) // last
            last, used = M[i, i], [i, *used]
    for i in used:  # y times `last` is whole by Cramer's rule
        y[i] = (last * M[i, -1] - M[i, :-1] @ y) // M[i, i]
    return y * Fraction(1, last * below)


def root(x: Fraction) -> Fraction:
    """A fraction not below √x; √x itself when that is a fraction."""
    n = x.numerator * x.denominator
    s = max(0, BITS - n.bit_length() // 2)
    return Fraction(math.isqrt((n << 2 * s) - 1) + 1 if n else 0, x.denominator << s)


def power(x: int, p: Fraction) -> int:
    """Not below x^p, both in units of 2^-BITS, x > 0: the digits of p pick factors x^(2^-i)."""
    one = out = 1 << BITS
    while p * one > one - 2:
        x, p = -(-x * x >> BITS), p / 2
    for bit in f"{math.floor(p * one) + (x > one):0{BITS}b}":
        x = math.isqrt(x * one - 1) + 1
        out = -(-out * x >> BITS) if bit == "1" else out
    return out


def above(norm: str | Fraction, W: Array) -> Fraction:
    """A fraction not below the norm of W; a fraction p as the norm stands for lP."""
    N, below = integers(W)
    size, top = [abs(x) for x in N.ravel() if x], abs(N).max()
    if norm in ("l1", "max") or not top:
        return Fraction(sum(size) if norm == "l1" else top, below)
    if norm == "frobenius":
        return root(Fraction(sum(x * x for x in size), below**2))
    if norm not in DUAL:
        total = sum(power(-(-(x << BITS) // top), norm) for x in size)
        return Fraction(top * power(total, 1 / norm), below << BITS)
    # W = U s V + R with floats U, s, V, whose vectors need be neither unit nor orthogonal.
    unit = Fraction(1 << top.bit_length(), below)
    U, s, V = map(exact, np.linalg.svd((W / unit).astype(float), full_matrices=False))
    rest = above("frobenius", W - (U * s) @ V * unit)
    if norm == "nuclear":  # ‖W‖ ≤ Σ s ‖u‖ ‖v‖ + √r ‖R‖_F
        parts = (t * root(u @ u) * root(v @ v) for t, u, v in zip(s, U.T, V, strict=True))
        return sum(parts) * unit + root(Fraction(len(s))) * rest
    for F in (U, V.T):  # σ₁ ≤ s₁ σ₁(U) σ₁(V) + ‖R‖_F and σ₁(F)² ≤ 1 + ‖FᵀF − I‖_F
        s = s * root(1 + above("frobenius", F.T @ F - np.eye(len(s), dtype=int)))
    return max(s) * unit + rest


def check(f: SimpleNamespace) -> str:
    """What the file proves. Inside, rows and right-hand sides are times a unit, y is over it."""
    p = f.norm if f.norm in DUAL else Fraction(f.norm[1:])
    m, hard, dual = len(f.b), f.budget == math.inf, DUAL[p] if p in DUAL else p / (p - 1)
    (keys, k), (z, q), W, C = integers(f.keys), integers(f.queries), exact(f.W), f.budget
    delta, unit = keys[f.hi] - np.where(f.lo[:, None] < 0, 0, keys[f.lo]), k * q
    A = (delta[:, :, None] * z[f.query][:, None]).reshape(len(delta), keys.shape[1] * z.shape[1])
    goal, error = exact(np.append(f.b, f.c)) * unit, exact(np.append(0 * f.b, f.c_error)) * unit
    y, more = exact(np.append(f.multipliers, f.tie_multipliers)) / unit, 1 + Fraction(f.tolerance)
    if f.proof == "exact":
        need(len(f.farkas) == len(A), "the Farkas certificate, farkas, is missing")
        y = np.array([Fraction(int(x), unit) for x in f.farkas], object)
    need(all(0 <= x * unit <= C for x in y[:m]), "a multiplier is negative or beyond the budget")
    G, worth = product(A.T, y).reshape(-1, z.shape[1]), sum(goal * y - error * abs(y))
    if f.status == "infeasible":
        need(hard and f.upper == math.inf and not W.size, "no W is claimed, yet one is bounded")
        size = above("l1", product(abs(A).T, abs(y))) * (f.proof == "numerical")
        zero = above("frobenius", G) <= size * Fraction(8 * len(A) + 64, 2**53)
        need(zero and worth > 0, "not a Farkas certificate: the constraints do not add up to zero")
    best = worth - above(dual, G) ** 2 / 2
    if hard and worth > 0:
        best = worth / above(dual, G) if G.any() else math.inf
    need(f.lower <= max(best, 0), f"lower is {f.lower!r}, the multipliers prove less")
    if f.upper != math.inf:
        need(W.size, "upper is finite without a W")
        tie, free = np.arange(len(A)) >= m, not any(goal[m:]) and not any(error)
        held = tie | (hard & ((goal == 0) | (not free)))
        w = moved(A, goal - error, goal + error, W.ravel(), held, tie)
        value, best = product(A, w), above(p, w.reshape(W.shape))
        if not hard:
            best = best**2 / 2 + Fraction(C) * sum(np.maximum(goal - value, 0)[:m]) / unit
        elif free:  # W may be scaled; without any b > 0 even to 0
            worst = min((v / g for v, g in zip(value, goal, strict=True) if g), default=math.inf)
            need(worst > 0, "a margin with b > 0 is not positive")
            best = best / worst
        need(f.upper >= best, f"upper is {f.upper!r}, the matrix near W has more")
    need(f.status != "optimal" or Fraction(f.lower) * more >= f.upper, "the gap is too large")
    return f"{f.status}: {f.lower!r} <= {f.norm} {'norm' if hard else 'objective'} <= {f.upper!r}"


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

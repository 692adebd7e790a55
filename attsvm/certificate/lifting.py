"""Exact solution of integer linear systems by p-adic lifting.

To solve A x = r over the rationals: invert A modulo one prime p, then find x digit by digit,

    x_i = A⁻¹ r_i mod p,      r_{i+1} = (r_i − A x_i) / p,      x ≡ Σ x_i pⁱ  (mod p^steps)

and read each rational entry from its residue. Every step works on numbers of the size of A, so
k unknowns cost about k³ where elimination on integers costs k⁵. The number of steps follows from
Hadamard's bound, and the solution is checked in the system before it is returned.

Theory: the lifting and its cost are those of [dixon1982exact].
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attsvm.norms.rational import Exact, Integers

# The largest primes below 2^26: a product has 52 bits, so 2^11 of them add up within int64.
# The later ones are tried when an earlier one divides the determinant by chance.
PRIMES = (67108859, 67108837, 67108819)
LARGEST_SYSTEM = 1 << 11
_LIMB = 24


def modulo(integers: Integers, prime: int) -> NDArray[np.int64]:
    """The residues of an array of integers, in 0 … prime − 1."""
    return (integers % prime).astype(np.int64)


def independent(rows: NDArray[np.int64], prime: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of rows, and of as many columns, whose square block is invertible modulo p.

    rows (k, D) are residues. The rows are chosen greedily from the first on: a row is left out
    when it depends, modulo p, on those before it. Rows independent modulo p are independent;
    the converse fails for about one prime in 10⁷.
    """
    rest = rows.copy()
    chosen, columns = [], []
    for i in range(len(rest)):
        places = rest[i].nonzero()[0]
        if not len(places):
            continue
        j = int(places[0])
        row = rest[i] * pow(int(rest[i, j]), -1, prime) % prime
        below = i + 1 + rest[i + 1 :, j].nonzero()[0]
        rest[below] = (rest[below] - rest[below, j, None] * row) % prime
        chosen.append(i)
        columns.append(j)
    return np.array(chosen, dtype=np.int64), np.array(columns, dtype=np.int64)


def solve_lifted(A: Integers, r: Integers) -> Exact | None:
    """The rational x (k,) with A x = r exactly, for integers A (k, k) and r (k,).

    None when A is singular (modulo every prime tried) or k exceeds LARGEST_SYSTEM.
    """
    k = len(r)
    if k == 0:
        return Exact(np.empty(0, dtype=object))
    if k > LARGEST_SYSTEM:
        return None
    common = [math.gcd(*row, right) or 1 for row, right in zip(A, r, strict=True)]
    divisor = np.array(common, dtype=object)
    A, r = A // divisor[:, None], r // divisor
    for prime in PRIMES:
        inverse = _inverse(modulo(A, prime), prime)
        if inverse is not None:
            below, above = _sizes(A, r)
            x, modulus = _lift(A, r, inverse, prime, below + above + 1)
            solution = _rationals(x, modulus, 1 << above)
            if solution is not None and (A @ solution.numerators == r * solution.denominator).all():
                return solution
    return None


def _inverse(A: NDArray[np.int64], prime: int) -> NDArray[np.int64] | None:
    """The inverse of A (k, k) modulo p, or None."""
    k = len(A)
    work = np.concatenate([A, np.eye(k, dtype=np.int64)], axis=1)
    for i in range(k):
        pivots = work[i:, i].nonzero()[0]
        if not len(pivots):
            return None
        j = i + int(pivots[0])
        if j != i:
            work[[i, j]] = work[[j, i]]
        work[i] = work[i] * pow(int(work[i, i]), -1, prime) % prime
        factor = work[:, i].copy()
        factor[i] = 0
        work = (work - factor[:, None] * work[i]) % prime
    return work[:, k:]


def _sizes(A: Integers, r: Integers) -> tuple[int, int]:
    """Bits that bound the denominator and the numerators of the solution.

    |det A| ≤ H = Π ‖A_i‖, and by Cramer's rule a numerator is at most H Σ |r_i| / ‖A_i‖.
    """
    # ‖A_i‖² < 2^t gives ‖A_i‖ < 2^⌈t/2⌉, and ‖A_i‖ ≥ 2^⌊(t−1)/2⌋.
    lengths = [sum(v * v for v in row).bit_length() for row in A]
    below = sum((t + 1) // 2 for t in lengths)
    excess = [abs(v).bit_length() - (t - 1) // 2 for v, t in zip(r, lengths, strict=True)]
    return below, below + max(0, *excess) + len(r).bit_length()


def _lift(
    A: Integers, r: Integers, inverse: NDArray[np.int64], prime: int, bits: int
) -> tuple[Integers, int]:
    """x (k,) modulo p^steps and p^steps > 2^bits."""
    limbs = _limbs(A)
    steps = bits // (prime.bit_length() - 1) + 1
    digits = np.empty((steps, len(r)), dtype=object)
    for step in range(steps):
        digit = inverse @ modulo(r, prime) % prime
        digits[step] = digit
        product = (limbs @ digit).astype(object)  # (limbs, k), each below 2^61
        total = product[-1]
        for part in product[-2::-1]:
            total = (total << _LIMB) + part
        r = (r - total) // prime
    # Digits are joined two by two, so that long products are few.
    modulus = prime
    while len(digits) > 1:
        if len(digits) % 2:
            digits = np.concatenate([digits, np.zeros((1, digits.shape[1]), dtype=object)])
        digits = digits[::2] + digits[1::2] * modulus
        modulus *= modulus
    modulus = prime**steps
    return digits[0] % modulus, modulus


def _limbs(A: Integers) -> NDArray[np.int64]:
    """A as (limbs, k, k) signed integers: A = Σ limb_l 2^(24 l)."""
    rest, sign = abs(A), np.where(A < 0, -1, 1).astype(np.int64)
    parts: list[NDArray[np.int64]] = []
    while not parts or rest.any():
        parts.append((rest & ((1 << _LIMB) - 1)).astype(np.int64) * sign)
        rest = rest >> _LIMB
    return np.stack(parts)


def _rationals(x: Integers, modulus: int, largest: int) -> Exact | None:
    """The rationals n/d with residues x, |n| ≤ largest and one denominator d for all.

    The denominator found so far is tried on each entry before a new one is searched: nearly
    always the first entry has it in full.
    """
    above: list[int] = []
    below = 1
    for residue in x:
        n = residue * below % modulus
        n = n - modulus if 2 * n > modulus else n
        if abs(n) > largest:
            n, d = _fraction(n % modulus, modulus, largest)
            if d == 0:
                return None
            above = [v * d for v in above]
            below *= d
        above.append(n)
    numerators = np.array([*above, None], dtype=object)[:-1]
    return Exact(numerators, below)


def _fraction(residue: int, modulus: int, largest: int) -> tuple[int, int]:
    """n/d ≡ residue with |n| ≤ largest and d > 0, by Euclid's algorithm stopped half way."""
    n0, n1, d0, d1 = modulus, residue, 0, 1
    while n1 > largest:
        q, rest = divmod(n0, n1)
        n0, n1, d0, d1 = n1, rest, d1, d0 - q * d1
    return (n1, d1) if d1 > 0 else (-n1, -d1)

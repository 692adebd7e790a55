"""Many steps of every other optimizer on W for eight instances at once, one in each lane.

The look at W is that of `lanes`. Here W is the state: w_i = W z_i is formed in each step, and so is
the gradient G = Σ_i p_i z_iᵀ where the optimizer needs its entries. `_toward` writes the direction
D of the step W ← W − η D − η λ W, and what the optimizer remembers.

Plain floats are enough while no number that decides an entry or a singular direction is lost: each
entry then is a sum of floats of any size, and U Vᵀ is that of columns of any size (`_polar`). A
lane whose numbers say otherwise takes this one step outside, by the optimizer itself from the
graded form of the gradient (`LaneSteps`), and goes on here with the next one. Whether it does
depends on where the instance stands and on nothing else, so neither a cut nor a neighbour changes
its path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attsvm._utils.arrays import Floats, Ints
from attsvm._utils.compiled import ENTRY, INNER, njit
from attsvm._utils.parallel import map_chunks, memory
from attsvm._utils.simd import (
    LANES,
    Lanes,
    absolute,
    add,
    aligned,
    below,
    choose,
    div,
    exp,
    fma,
    larger,
    load,
    minus,
    mul,
    power,
    smaller,
    splat,
    sqrt,
    store,
    sub,
)
from attsvm._utils.simd import log as log_lanes
from attsvm.training.models.gradient.fused import (
    FAR,
    LOWEST,
    Instances,
    Log,
    RunState,
    StepSizes,
    value_of,
)
from attsvm.training.models.gradient.lanes import (
    ALL,
    LaneWorkspace,
    look,
    note_lane,
    open_lane,
    products,
    weigh_parts,
)
from attsvm.training.optimizers.graded.wide import APART, NONE, of_log
from attsvm.training.optimizers.optimizer import ADAM, MIRROR, POLAR, POLYAK, Held, LaneRule, State

# An entry below this share of the largest may have lost what decides it.
FAINT_ENTRY = 1e-250
# The same of squares: of entries, and of the columns of `_polar`.
FAINT_SQUARE = 1e-260
# Columns closer to dependent than this, and sums that cancel to this share (of squares), are left
# to the graded form, as their directions are exact to no more than twelve digits.
DEPENDENT, CANCELLED = 1e-8, 1e-8
# A query nearer to the span of others than this share (of squares) lies in it: rounding.
ROUNDING = 2.0**-92
# Columns at right angles up to this (of squared cosines), and the most sweeps until they are.
SQUARE, SWEEPS = 2.0**-100, 30
# Inputs are ordered by size in steps of this power of two, of squares.
STEP = 6


def fits(given: Instances, rule: LaneRule) -> bool:
    """Whether the kernel takes this rule on instances that fit in lanes."""
    n, d, dq = given.keys.shape[1], given.keys.shape[3], given.queries.shape[2]
    if rule.bases and (n > dq or dq == 1):
        return False
    return rule.code != POLAR or n <= d


class Rule(NamedTuple):
    """The optimizer: code and numbers as in `LaneRule`, taken: its steps before the first of this
    call, floor (B,): the infimum of the loss."""

    code: int
    numbers: Floats
    taken: int
    floor: Floats


class Places(NamedTuple):
    """Where each group of eight stands: reached (groups,): the steps of this call that it has
    taken; stuck (groups,): bits of the lanes that must take the next one outside. chosen: the
    groups that go on."""

    reached: Ints
    stuck: Ints
    chosen: Ints


class RuleWorkspace(NamedTuple):
    """Memory of one thread, lanes last: W (dq, d, 8): Wᵀ; G: the gradient in it, then D; dead
    (dq, d, 8): 1 for entries that no gradient has; held, after (M, 8): what the optimizer
    remembers, before and after the step; power, power_after (8,); size, scale: ‖G‖² and the
    exponent of g; old, fresh, factor (8,).

    For U Vᵀ: c, z, q, L: the vectors p_i and z_i by falling size, the orthonormal basis of the z_i
    and z_i = Σ_j L_ij q_j; columns, V, turned (dq, n, 8), squares, bulk, ends (n, 8). order
    (n, 8)."""

    W: Floats
    G: Floats
    dead: Floats
    held: Floats
    after: Floats
    c: Floats
    z: Floats
    q: Floats
    L: Floats
    columns: Floats
    V: Floats
    turned: Floats
    squares: Floats
    bulk: Floats
    ends: Floats
    size: Floats
    scale: Floats
    old: Floats
    fresh: Floats
    factor: Floats
    power: Ints
    power_after: Ints
    order: Ints

    @classmethod
    def sized(cls, n: int, d: int, dq: int, M: int) -> RuleWorkspace:
        """The memory for eight instances of this size, of which M numbers are held."""
        matrices = [(dq, d), (dq, d), (dq, d), (M,), (M,), (n, d), (n, dq), (n, dq), (n, n)]
        shapes = [*matrices, (n, d), (n, n), (dq, n), (n,), (n,), (n,), *[()] * 5]
        arrays: list[Any] = [aligned((*shape, LANES)) for shape in shapes]
        arrays += [np.zeros(shape, np.int64) for shape in (LANES, LANES, (n, LANES))]
        return cls(*arrays)


def _allocate(
    n: int, T: int, d: int, e: int, dq: int, M: int
) -> tuple[LaneWorkspace, RuleWorkspace]:
    return LaneWorkspace.sized(n, T, d, e, dq), RuleWorkspace.sized(n, d, dq, M)


@njit(**INNER)
def _open(
    given: Instances,
    work: LaneWorkspace,
    own: RuleWorkspace,
    state: RunState,
    held: Held,
    b: int,
    l: int,
) -> None:
    """Fills lane l with instance b."""
    n, T, d = given.keys.shape[1:]
    dq = given.queries.shape[2]
    open_lane(given, work, state.W, b, l)
    for r in range(d):
        for c in range(dq):
            own.W[c, r, l] = state.W[b, r, c]
    for q in range(len(own.held)):
        own.held[q, l] = held[0][b, q]
    own.power[l] = held[1][b]
    for i in range(n):
        own.order[i, l] = -1
    for r in range(d):
        same = True
        for i in range(n):
            for t in range(T):
                if given.present[b, i, t] and given.keys[b, i, t, r] != given.keys[b, i, 0, r]:
                    same = False
        for c in range(dq):
            nothing = same
            if not same:
                nothing = True
                for i in range(n):
                    nothing = nothing and given.queries[b, i, c] == 0.0
            own.dead[c, r, l] = 1.0 if nothing else 0.0


@njit(**INNER)
def _copy_out(own: RuleWorkspace, out: Floats, l: int) -> None:
    """Writes W of lane l to out (d, dq)."""
    for c in range(out.shape[1]):
        for r in range(out.shape[0]):
            out[r, c] = own.W[c, r, l]


@njit(**INNER)
def _close(own: RuleWorkspace, state: RunState, held: Held, b: int, l: int) -> None:
    """Keeps where instance b stands in lane l."""
    _copy_out(own, state.W[b], l)
    for q in range(len(own.held)):
        held[0][b, q] = own.held[q, l]
    held[1][b] = own.power[l]


@njit(**INNER)
def _see(
    given: Instances,
    work: LaneWorkspace,
    own: RuleWorkspace,
    state: RunState,
    step: int,
) -> bool:
    """Whether all numbers at W are well inside the floats; writes p_i, G and both their sizes."""
    dq, d, _ = own.W.shape
    n = len(work.looks.w)
    row = d * LANES
    for i in range(n):
        products(work.queries, own.W, (i * dq * LANES, 0, i * row), work.looks.w, dq, row)
    for i in range(n):
        if not look(given, work.looks, state, step, i):
            return False
    weigh_parts(work)
    for c in range(dq):
        products(work.turned, work.looks.part, (c * n * LANES, 0, c * row), own.G, n, row)
    square = splat(0.0)
    for q in range(0, own.G.size, LANES):
        x = load(own.G, q)
        square = fma(x, x, square)
    store(own.size, 0, square)
    spread = math.log(n)
    for l in range(LANES):
        size = own.size[l]
        if not (size == 0.0 or 1e-280 < size < 1e280):
            return False
        own.scale[l] = work.peak[l] - spread if size > 0.0 else 0.0
        if own.scale[l] > -LOWEST:
            return False
    return True


@njit(**INNER)
def _weigh(own: RuleWorkspace, beta: float) -> None:
    """Writes old and fresh, the factors of m and G in m ← β m + (1 − β) g, and power_after, the
    power of two that leaves the sum. Powers of two are exact, whatever their choice."""
    for l in range(LANES):
        own.old[l] = own.fresh[l] = 0.0
        own.power_after[l] = NONE
        before = own.power[l] if beta > 0.0 else NONE
        if own.size[l] == 0.0:
            own.old[l], own.power_after[l] = beta, before
            continue
        share, now = of_log(1.0, own.scale[l])
        top = max(before, now)
        own.power_after[l] = top
        own.old[l] = beta * math.ldexp(1.0, max(before - top, -APART))
        own.fresh[l] = (1.0 - beta) * share * math.ldexp(1.0, max(now - top, -APART))


@njit(**INNER)
def _level(own: RuleWorkspace) -> None:
    """Brings the largest number of `after` to [½, 1) by a power of two."""
    top = splat(0.0)
    for q in range(0, own.after.size, LANES):
        top = larger(top, absolute(load(own.after, q)))
    store(own.factor, 0, top)
    for l in range(LANES):
        turns = math.frexp(own.factor[l])[1]
        own.power_after[l] = own.power_after[l] + turns if own.factor[l] > 0.0 else NONE
        own.factor[l] = math.ldexp(1.0, -turns)
    f = load(own.factor, 0)
    for q in range(0, own.after.size, LANES):
        store(own.after, q, mul(f, load(own.after, q)))


@njit(**INNER)
def _average(own: RuleWorkspace, beta: float) -> int:
    """Lanes that need more than floats; D = sign(m)."""
    _weigh(own, beta)
    old, fresh = load(own.old, 0), load(own.fresh, 0)
    for q in range(0, own.G.size, LANES):
        store(own.after, q, fma(old, load(own.held, q), mul(fresh, load(own.G, q))))
    _level(own)
    least = splat(1.0)
    zero, one = splat(0.0), splat(1.0)
    for q in range(0, own.G.size, LANES):
        m = load(own.after, q)
        least = smaller(least, add(absolute(m), load(own.dead, q)))
        store(own.G, q, choose(zero, m, one, choose(m, zero, minus(one), zero)))
    return ALL - below(splat(FAINT_ENTRY), least)


@njit(**INNER)
def _adapt(own: RuleWorkspace, rule: Rule, t: int) -> int:
    """Lanes that need more than floats; D of the t-th step of Adam. held: r, then log √v."""
    beta1, beta2, eps = rule.numbers[0], rule.numbers[1], rule.numbers[2]
    whole = own.G.size
    S = load(own.scale, 0)
    top = splat(-np.inf)
    for q in range(0, whole, LANES):
        top = larger(top, load(own.held, whole + q))
    S = larger(top, S)
    g = exp(sub(load(own.scale, 0), S))
    bias1, bias2 = 1.0 - beta1**t, 1.0 - beta2**t
    least = splat(1.0)
    zero, none = splat(0.0), splat(-np.inf)
    for q in range(0, whole, LANES):
        logs = load(own.held, whole + q)
        a = exp(sub(logs, S))
        G = mul(g, load(own.G, q))
        v = fma(mul(splat(beta2), a), a, mul(mul(splat(1.0 - beta2), G), G))
        least = smaller(least, add(v, load(own.dead, q)))
        r = fma(mul(splat(beta1), load(own.held, q)), a, mul(splat(1.0 - beta1), G))
        r = choose(zero, v, div(r, sqrt(v)), zero)
        logs = choose(zero, v, fma(splat(0.5), log_lanes(v), S), none)
        store(own.after, q, r)
        store(own.after, whole + q, logs)
        D = mul(r, splat(math.sqrt(bias2) / bias1))
        if eps > 0.0:
            root = exp(smaller(logs, splat(-LOWEST)))
            D = mul(D, div(root, add(root, splat(eps * math.sqrt(bias2)))))
        store(own.G, q, D)
    return ALL - below(splat(FAINT_SQUARE), least)


@njit(**INNER)
def _mirror(own: RuleWorkspace, rule: Rule, lr: float) -> bool:
    """Whether the step stays inside the floats; writes −W after it to G. The dual is held."""
    p, plain = rule.numbers[0], rule.numbers[1]
    if plain == 1.0:
        store(own.factor, 0, mul(splat(-lr), exp(load(own.scale, 0))))
    else:
        top = splat(0.0)
        for q in range(0, own.G.size, LANES):
            top = larger(top, absolute(load(own.G, q)))
        dual = p / (p - 1.0)
        total = splat(0.0)
        for q in range(0, own.G.size, LANES):
            total = add(total, power(div(absolute(load(own.G, q)), top), splat(dual)))
        size = mul(top, power(total, splat(1.0 / dual)))
        store(own.factor, 0, choose(splat(0.0), top, div(splat(-lr), size), splat(0.0)))
    f = load(own.factor, 0)
    most, zero = splat(0.0), splat(0.0)
    for q in range(0, own.G.size, LANES):
        u = fma(f, load(own.G, q), load(own.held, q))
        size = absolute(u)
        most = larger(most, size)
        x = power(size, splat(1.0 / (p - 1.0)))
        store(own.after, q, u)
        store(own.G, q, choose(zero, u, minus(x), x))
    return below(most, splat(FAR ** min(p - 1.0, 1.0))) == ALL


@njit(**INNER)
def _polyak(given: Instances, work: LaneWorkspace, own: RuleWorkspace, rule: Rule, lr: float,
            first: int) -> bool:  # fmt: skip
    """Whether the step stays inside the floats; writes D."""
    n = len(work.looks.margin)
    last = len(given.keys) - 1
    for l in range(LANES):
        own.factor[l] = loss = 0.0
        for i in range(n):
            loss += value_of(given.code, work.looks.margin[i, l])
        above = loss / n - rule.floor[min(first + l, last)]
        if not above < np.inf:
            return False
        if own.size[l] > 0.0 and above > 0.0 and lr > 0.0:
            size = math.sqrt(own.size[l])
            length = math.log(lr) + math.log(above) - math.log(size) - own.scale[l]
            if rule.numbers[0] < np.inf:
                length = min(length, math.log(rule.numbers[0]))
            if not length < math.log(FAR):
                return False
            own.factor[l] = math.exp(length) / size / lr
    f = load(own.factor, 0)
    for q in range(0, own.G.size, LANES):
        store(own.G, q, mul(f, load(own.G, q)))
    return True


@njit(**INNER)
def _sort(work: LaneWorkspace, own: RuleWorkspace) -> None:
    """Orders the inputs of every lane by the sizes of `after`, and writes c in this order; z, q and
    L as well where the order has changed."""
    n, d, _ = own.c.shape
    dq = own.z.shape[1]
    row = d * LANES
    for i in range(n):
        total = splat(0.0)
        for r in range(i * row, (i + 1) * row, LANES):
            x = load(own.after, r)
            total = fma(x, x, total)
        store(own.squares, i * LANES, total)
    changed = False
    for l in range(LANES):
        for i in range(n):
            x = own.squares[i, l]
            own.ends[i, l] = math.frexp(x)[1] // STEP if x > 0.0 else -np.inf
        for i in range(n):
            place = 0
            for j in range(n):
                larger_one = own.ends[j, l] > own.ends[i, l]
                if larger_one or (own.ends[j, l] == own.ends[i, l] and j < i):
                    place += 1
            for r in range(d):
                own.c[place, r, l] = own.after[i * d + r, l]
            own.bulk[place, l] = own.squares[i, l]
            if own.order[place, l] != i:
                own.order[place, l] = i
                changed = True
                for c in range(dq):
                    own.z[place, c, l] = work.queries[i, c, l]
    if changed:
        _orthonormal(own)


@njit(**INNER)
def _orthonormal(own: RuleWorkspace) -> None:
    """Writes the basis q and L, z_i = Σ_j L_ij q_j, by Gram–Schmidt twice over; a z_i in the span
    of those before has q_i = 0."""
    n, dq, _ = own.z.shape
    row = dq * LANES
    zero = splat(0.0)
    for k in range(0, own.L.size, LANES):
        store(own.L, k, zero)
    for i in range(n):
        whole = zero
        for r in range(0, row, LANES):
            x = load(own.z, i * row + r)
            store(own.q, i * row + r, x)
            whole = fma(x, x, whole)
        for _ in range(2):
            for j in range(i):
                s = zero
                for r in range(0, row, LANES):
                    s = fma(load(own.q, j * row + r), load(own.q, i * row + r), s)
                at = (i * n + j) * LANES
                store(own.L, at, add(load(own.L, at), s))
                for r in range(i * row, (i + 1) * row, LANES):
                    y = load(own.q, j * row + r - i * row)
                    store(own.q, r, fma(minus(s), y, load(own.q, r)))
        left = zero
        for r in range(i * row, (i + 1) * row, LANES):
            left = fma(load(own.q, r), load(own.q, r), left)
        edge = mul(splat(ROUNDING), whole)
        size = choose(edge, left, sqrt(left), zero)
        store(own.L, (i * n + i) * LANES, size)
        inverse = choose(edge, left, div(splat(1.0), size), zero)
        for r in range(i * row, (i + 1) * row, LANES):
            store(own.q, r, mul(inverse, load(own.q, r)))


@njit(**INNER, forceinline=True)
def _dot(A: Floats, a: int, b: int, row: int) -> Lanes:
    """The product of two rows of A that begin at a and b."""
    s = splat(0.0)
    for r in range(0, row, LANES):
        s = fma(load(A, a + r), load(A, b + r), s)
    return s


@njit(**INNER, forceinline=True)
def _turn(A: Floats, a: int, b: int, row: int, c: Lanes, s: Lanes) -> None:
    """Rotates two rows of A: x ← c x − s y, y ← s x + c y."""
    for r in range(0, row, LANES):
        x, y = load(A, a + r), load(A, b + r)
        store(A, a + r, fma(c, x, minus(mul(s, y))))
        store(A, b + r, fma(s, x, mul(c, y)))


@njit(**INNER)
def _rotate(own: RuleWorkspace) -> int:
    """Makes the columns orthogonal by rotations, summed up in V; lanes where they are not yet.

    A pair that is orthogonal in a lane stays as it is there.
    """
    n, d, _ = own.columns.shape
    row, square = d * LANES, n * LANES
    edge, zero, one, half = splat(SQUARE), splat(0.0), splat(1.0), splat(0.5)
    turned = 0
    for _ in range(SWEEPS):
        turned = 0
        for i in range(n - 1):
            for j in range(i + 1, n):
                a = _dot(own.columns, i * row, i * row, row)
                b = _dot(own.columns, j * row, j * row, row)
                g = _dot(own.columns, i * row, j * row, row)
                cosine = mul(div(g, a), div(g, b))
                bits = below(edge, cosine)
                if bits == 0:
                    continue
                turned |= bits
                x = div(mul(half, sub(b, a)), g)
                t = div(one, add(absolute(x), sqrt(fma(x, x, one))))
                t = choose(x, zero, minus(t), t)
                t = choose(edge, cosine, t, zero)
                c = div(one, sqrt(fma(t, t, one)))
                s = mul(c, t)
                _turn(own.columns, i * row, j * row, row, c, s)
                _turn(own.V, i * square, j * square, square, c, s)
        if turned == 0:
            break
    return turned


@njit(**INNER)
def _polar(work: LaneWorkspace, own: RuleWorkspace) -> int:
    """Lanes that need more than floats; D = U Vᵀ of Σ_i p_i z_iᵀ, p_i in `after`.

    With z_i = Σ_j L_ij q_j it is Σ_j a_j q_jᵀ, a_j = Σ_i≥j L_ij p_i. The p_i fall in size, so that
    each a_j is as large as p_j and as exact; one-sided Jacobi rotations keep that. It is right to
    rounding times the condition of the a_j/‖a_j‖, which is bounded from above by the last test.
    """
    n, d, _ = own.c.shape
    dq = own.z.shape[1]
    row, square = d * LANES, n * LANES
    zero, one = splat(0.0), splat(1.0)
    _sort(work, own)
    poor = 0
    for j in range(n):
        for r in range(0, row, LANES):
            x = zero
            for i in range(j, n):
                x = fma(load(own.L, (i * n + j) * LANES), load(own.c, i * row + r), x)
            store(own.columns, j * row + r, x)
        size = _dot(own.columns, j * row, j * row, row)
        store(own.squares, j * LANES, size)
        bulk, whole = zero, zero
        for i in range(j, n):
            f = load(own.L, (i * n + j) * LANES)
            bulk = fma(mul(f, f), load(own.bulk, i * LANES), bulk)
        for i in range(j + 1):
            f = load(own.L, (j * n + i) * LANES)
            whole = fma(f, f, whole)
        f = load(own.L, (j * n + j) * LANES)
        there = below(zero, f)
        # Sizes that are lost, sums that cancel, and queries that are nearly dependent.
        poor |= there & ~below(splat(FAINT_SQUARE), size)
        poor |= there & ~below(mul(splat(CANCELLED), bulk), size)
        poor |= there & ~below(mul(splat(CANCELLED), whole), mul(f, f))
        for i in range(n):
            store(own.V, j * square + i * LANES, one if i == j else zero)
    poor |= _rotate(own)
    for k in range(n):
        size = _dot(own.columns, k * row, k * row, row)
        inverse = choose(zero, size, div(one, size), zero)
        worst = zero
        for j in range(n):
            v = load(own.V, k * square + j * LANES)
            worst = fma(mul(mul(v, v), inverse), load(own.squares, j * LANES), worst)
        poor |= ~below(mul(splat(DEPENDENT), worst), one)
        root = sqrt(inverse)
        for r in range(k * row, (k + 1) * row, LANES):
            store(own.columns, r, mul(root, load(own.columns, r)))
        for c in range(dq):
            x = zero
            for j in range(n):
                v = load(own.V, k * square + j * LANES)
                x = fma(v, load(own.q, (j * dq + c) * LANES), x)
            store(own.turned, (c * n + k) * LANES, x)
    for c in range(dq):
        products(own.turned, own.columns, (c * n * LANES, 0, c * row), own.G, n, row)
    return poor & ALL


@njit(**INNER)
def _smooth(work: LaneWorkspace, own: RuleWorkspace, beta: float) -> int:
    """Lanes that need more than floats; D = U Vᵀ of m = Σ_i c_i z_iᵀ, of which the c_i are held."""
    _weigh(own, beta)
    old, fresh = load(own.old, 0), load(own.fresh, 0)
    for r in range(0, own.after.size, LANES):
        store(own.after, r, fma(old, load(own.held, r), mul(fresh, load(work.looks.part, r))))
    _level(own)
    return _polar(work, own)


@njit(**INNER)
def _step(work: LaneWorkspace, own: RuleWorkspace, lr: float, left: float) -> int:
    """Lanes in which W ← left W − lr D stays inside the floats; what was held becomes what is."""
    most = splat(0.0)
    for q in range(0, own.W.size, LANES):
        x = fma(splat(-lr), load(own.G, q), mul(splat(left), load(own.W, q)))
        store(own.W, q, x)
        most = larger(most, absolute(x))
    store(work.looks.reach, 0, most)
    for q in range(0, own.held.size, LANES):
        store(own.held, q, load(own.after, q))
    for l in range(LANES):
        own.power[l] = own.power_after[l]
    return below(most, splat(FAR))


@njit(**ENTRY)
def _march(
    given: Instances,
    work: LaneWorkspace,
    own: RuleWorkspace,
    rule: Rule,
    steps: StepSizes,
    state: RunState,
    held: Held,
    log: Log,
    places: Places,
    begin: int,
    end: int,
) -> bool:
    """The steps of the chosen groups from begin to end until each is through or one of its lanes
    needs more than floats; False where the numbers end."""
    B = len(given.keys)
    lr = steps.lr
    for g in range(begin, end):
        group = places.chosen[g]
        first = group * LANES
        count = min(LANES, B - first)
        lost = 0
        real = (1 << count) - 1
        for l in range(LANES):
            b = min(first + l, B - 1)
            _open(given, work, own, state, held, b, l)
            if len(own.held) > 0 and math.isnan(own.held[0, l]):
                lost |= 1 << l
                for q in range(len(own.held)):
                    own.held[q, l] = 0.0
        k = places.reached[group]
        written = 0
        while written < len(log.at) and log.at[written] < k:
            written += 1
        poor = 0
        while k < len(lr) and poor == 0:
            if not _see(given, work, own, state, steps.first + k):
                return False
            if written < len(log.at) and log.at[written] == k:
                for l in range(count):
                    size = own.size[l]
                    logs = 0.5 * math.log(size) + own.scale[l] if size > 0.0 else -np.inf
                    note_lane(work, state, log, given.code, written, l, logs)
                    _copy_out(own, log.weights[written, first + l], l)
                written += 1
            if not lr[k] >= 0.0:  # a last look without a step
                k = len(lr)
                break
            eta, left = lr[k], 1.0 - lr[k] * steps.decay
            if rule.code == POLYAK:
                if not _polyak(given, work, own, rule, eta, first):
                    return False
            elif rule.code == MIRROR:
                if not _mirror(own, rule, eta):
                    return False
                eta, left = 1.0, 0.0
            elif rule.code == ADAM:
                poor = _adapt(own, rule, rule.taken + k + 1)
            elif rule.code == POLAR:
                poor = _smooth(work, own, rule.numbers[0])
            else:
                poor = _average(own, rule.numbers[0])
            poor = (poor | lost) & real
            for l in range(count):
                if not (poor >> l) & 1:
                    state.clock[first + l] = np.nan
                elif not (lost >> l) & 1:
                    _close(own, state, held, first + l, l)
            if (_step(work, own, eta, left) | poor | ~real) & ALL != ALL:
                return False
            k += 1
        for l in range(count):
            if not ((poor | lost) >> l) & 1:
                _close(own, state, held, first + l, l)
        places.reached[group] = k
        places.stuck[group] = poor
    return True


# (instances (m,), W (m, d, dq), state, lr (m,), step) -> (W, state) by the optimizer itself.
Outside = Callable[[Ints, Floats, State, Floats, int], tuple[Floats, State]]


class LaneSteps:
    """The steps of all instances by this rule, from one call to the next; the state of the
    optimizer is read with `open` and given back by `close`.

    outside: one step of some instances, for those that need more than floats. floor (B,): the
    infimum of the loss.
    """

    def __init__(self, given: Instances, rule: LaneRule, outside: Outside, floor: Floats) -> None:
        self.given, self.rule, self.outside, self.floor = given, rule, outside, floor
        self.held: Held = np.empty((0, 0)), np.empty(0, np.int64)
        self.state: State = {}
        self.count = 0

    def open(self, W: Floats, state: State) -> None:
        """Begins at W (B, d, dq) with this state of the optimizer."""
        self.state, self.count = dict(state), int(state.get("count", 0))
        self.held = self.rule.pack(self.state, W, self.given.queries)

    def close(self, W: Floats) -> State:
        """The state of the optimizer at W."""
        return self._state(self.held, self.state, W, np.arange(len(W)), self.count)

    def _state(self, held: Held, kept: State, W: Floats, index: Ints, count: int) -> State:
        """The state of these instances, of whom W and held are: from held, or as it was kept."""
        lost = np.asarray(np.isnan(held[0][:, :1]).any(axis=1))
        if lost.all():
            known = {name: rows[index] for name, rows in kept.items() if np.ndim(rows)}
            return known | {name: np.int64(count) for name in kept if name not in known}
        found = self.rule.unpack(held, W, self.given.queries[index], count)
        for name, rows in found.items():
            if np.ndim(rows) and lost.any():
                rows[lost] = kept[name][index][lost]
        return found

    def __call__(self, steps: StepSizes, state: RunState, log: Log) -> bool:
        """Whether every instance stayed inside the range of floats; if one did not, all is void."""
        given = self.given
        groups = -(-len(given.keys) // LANES)
        sizes = *given.keys.shape[1:], given.values.shape[3], given.queries.shape[2]
        held = self.held[0].copy(), self.held[1].copy()
        kept = {name: np.array(value) for name, value in self.state.items()}
        rule = Rule(self.rule.code, np.array(self.rule.numbers), self.count, self.floor)
        places = Places(np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.arange(groups))
        taken = int((steps.lr >= 0).sum())

        def some(begin: int, end: int) -> bool:
            work = memory(_allocate, *sizes, held[0].shape[1])
            return bool(_march(given, *work, rule, steps, state, held, log, places, begin, end))

        while len(places.chosen):
            if not all(map_chunks(some, len(places.chosen))):
                return False
            stuck = np.flatnonzero(places.stuck)
            # Those that are behind go first, so that many take one step together.
            behind = stuck[places.reached[stuck] == places.reached[stuck].min(initial=taken)]
            places = places._replace(chosen=behind)
            if len(behind) and not self._step_outside(steps, state, held, kept, places):
                return False
        self.held, self.state, self.count = held, kept, self.count + taken
        return True

    def _step_outside(
        self, steps: StepSizes, state: RunState, held: Held, kept: dict[str, Any], places: Places
    ) -> bool:
        """Whether the step of the stuck lanes of the chosen groups stays inside the floats."""
        bits = (places.stuck[places.chosen][:, None] >> np.arange(LANES)) & 1
        index = (places.chosen[:, None] * LANES + np.arange(LANES))[bits == 1]
        k = int(places.reached[places.chosen[0]]) - 1
        before = self._state(
            (held[0][index], held[1][index]), kept, state.W[index], index, self.count + k
        )
        lr = np.full(len(index), steps.lr[k])
        W, after = self.outside(index, state.W[index], before, lr, steps.first + k)
        if not (np.abs(W) <= FAR).all():
            return False
        state.W[index] = W
        state.clock[index] = np.nan
        for name, rows in after.items():
            if np.ndim(rows):
                kept[name][index] = rows
        held[0][index], held[1][index] = self.rule.pack(after, W, self.given.queries[index])
        places.stuck[places.chosen] = 0
        return True

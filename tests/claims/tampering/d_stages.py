"""Tampered results of the claims on the two stages of next-token training."""

import numpy as np

from attsvm.claims.shared.stage_records import drawn
from attsvm.language.order import orders
from attsvm.language.problems import attention_problem
from attsvm.solvers.front import solve
from tests.claims.tampering.ways import backwards, changed, rolled


def of_another_norm(name, place=0):
    """The solution W_kq of the largest entry's norm in place of the Frobenius one."""

    def tamper(config, result):
        data = drawn(config, config["seeds"][place])
        other = solve(attention_problem(orders(data), np.eye(data.vocabulary)), "max", tol=1e-6)
        return {**result, name: np.array(other.W)}

    return tamper


def permuted(name):
    """A matrix (or the records of one) with its rows, the followers, in another order."""
    return changed(name, lambda a: np.roll(a, 1, axis=-2))


def moving(name):
    """A decoder that is not the one that attention was trained over: its end has moved on."""

    def move(a):
        a[-1] = 0.5 * a[-1]
        return a

    return changed(name, move)


def shuffled(name):
    """The records of a path in random order, the first where it was."""

    def mix(a):
        order = 1 + np.random.default_rng(0).permutation(len(a) - 1)
        return a[np.concatenate([[0], order])]

    return changed(name, mix)


TAMPERED = {
    "D.two-stages": (
        ("the max norm's solution as the Frobenius one", of_another_norm("attention.0.W")),
        ("followers of other tokens", permuted("uniform.W_ov")),
        ("the path of W_kq backwards", backwards("W_kq")),
        ("attention over a decoder that was not frozen", moving("uniform.W_ov")),
        ("the decoders of other sets", rolled("empirical.W_ov", axis=1)),
    ),
    "D.rates": (
        ("the max norm's solution as the Frobenius one", of_another_norm("attention.0.W")),
        ("the path of W_kq shuffled", shuffled("W_kq")),
        ("followers of other tokens", permuted("decoder.0.W")),
        ("attention over another decoder", changed("frozen.0", lambda a: 0.5 * a)),
    ),
    "D.two-stage-against-one-stage": (
        ("the max norm's solution as the Frobenius one", of_another_norm("attention.0.W")),
        ("attention over a decoder that was not frozen", moving("two.0.W_ov")),
        ("the one-stage path shuffled", shuffled("L.0.0.W_kq")),
        ("followers of other tokens", permuted("decoder.0.W")),
    ),
}

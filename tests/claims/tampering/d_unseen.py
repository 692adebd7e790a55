"""Tampered results of the claims on unseen sentences and on the order of kinds."""

from tests.claims.tampering.c import taken
from tests.claims.tampering.ways import backwards, changed, rolled, scaled_up


def _lifted(place, value):
    """One entry of a matrix set to a value."""

    def change(a):
        a[place] = value
        return a

    return change


TAMPERED = {
    "D.generalization-on-unseen": (
        ("the attention trained on another set", taken("0.later", "1.later")),
        ("a decoder whose outputs are those of the next token", rolled("0.W_ov")),
        ("the solution of another set", taken("0.best.W", "1.best.W")),
        ("a solution of twice the margin", changed("1.best.W", lambda W: 2 * W)),
        ("multipliers that promise more", scaled_up("0.best.multipliers")),
    ),
    "D.order-extension-ties": (
        ("the tied token lifted above 0", changed("tie.best.W", _lifted((2, 3), 0.25))),
        ("columns of other queries", rolled("0.best.W", axis=1)),
        ("a training path read backwards", backwards("reversal.W_kq")),
        ("trained tokens never seen a little off 0", changed("0.W_kq", lambda W: W + 1e-6)),
    ),
}

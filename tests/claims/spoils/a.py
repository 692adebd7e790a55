"""Tampered results of the claims of paper A."""

from tests.claims.spoils.tampering import backwards, changed, rolled

_SINGLE = (
    ("the path backwards", backwards("p")),
    ("the solutions of other tokens", rolled("best.W")),
    ("the ends of the map permuted", changed("map.top", lambda a: (a + 1) % 3)),
)

SPOILS = {
    "A.single-input-global": _SINGLE,
    "A.single-input-local": _SINGLE,
}

"""Tampered results: three for each claim, none of which may pass its check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.claims.tampering import a, b, beyond, c, d_cyclic, d_stages, d_unseen, real

# (what was done, the tampered copy of a result).
Tamper = tuple[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]]

TAMPERED: dict[str, tuple[Tamper, ...]] = {
    name: ways
    for module in (a, b, beyond, c, d_cyclic, d_stages, d_unseen, real)
    for name, ways in module.TAMPERED.items()
}

"""Tampered results: three for each claim, none of which may pass its check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.claims.spoils import a, b, beyond, c, d_cyclic, d_stages, d_unseen

# (what was done, the tampered copy of a result).
Spoil = tuple[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]]

SPOILS: dict[str, tuple[Spoil, ...]] = {
    name: spoils
    for module in (a, b, beyond, c, d_cyclic, d_stages, d_unseen)
    for name, spoils in module.SPOILS.items()
}

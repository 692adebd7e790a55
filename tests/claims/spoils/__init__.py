"""Tampered results: three for each claim, none of which may pass its check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.claims.spoils import a, b, beyond, c

# (what was done, the tampered copy of a result).
Spoil = tuple[str, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]]

SPOILS: dict[str, tuple[Spoil, ...]] = {**a.SPOILS, **b.SPOILS, **beyond.SPOILS, **c.SPOILS}

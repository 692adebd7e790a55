"""InspectionConfig: how many queries, draws and attacks an inspection spends on a head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from attsvm._utils.expected import shown, whole
from attsvm.errors import Unsupported


@dataclass(frozen=True)
class InspectionConfig:
    """What is spent on each head.

    fit, test: queries to fit on and held out. draws: heads of each null, in the Frobenius norm;
    nuclear_draws: in the nuclear norm (0: only the head itself; −1: the nuclear norm is left out).
    attacks: queries on which each guarantee is attacked. share: the error of eviction. cross:
    whether cross-entropy fits are made. cache: texts of a causal model on which the keys are named
    that no later query needs. seed: of every draw.

    >>> InspectionConfig.of(quick=True).fit < InspectionConfig().fit
    True
    """

    fit: int = 200
    test: int = 400
    draws: int = 3
    nuclear_draws: int = 1
    attacks: int = 100
    share: float = 0.01
    cross: bool = True
    cache: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"fit": 1, "test": 2, "draws": 0, "attacks": 0, "cache": 0, "nuclear_draws": -1}
        for name, value in least.items():
            whole(getattr(self, name), name, least=value)
        if not 0 < self.share < 1:
            raise Unsupported(f"share is {self.share}: it must lie between 0 and 1")

    @staticmethod
    def of(*, queries: int | None = None, quick: bool = False, seed: int = 0) -> InspectionConfig:
        """The configuration for so many fitted queries, and twice as many held out.

        quick: far less: fewer queries, two draws, no nuclear norm, no cross-entropy fits.
        """
        less: dict[str, Any] = {"fit": 60, "test": 120, "draws": 2, "nuclear_draws": -1}
        less |= {"attacks": 20, "cache": 4, "cross": False}
        config = InspectionConfig(**(less if quick else {}), seed=seed)
        if queries is None:
            return config
        number = whole(queries, "queries", least=1)
        if number > 1_000_000:
            raise Unsupported(f"queries is {shown(queries)}: give at most 1,000,000")
        return replace(config, fit=number, test=2 * number)

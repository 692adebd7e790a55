"""InspectionConfig: how many queries, draws and attacks an inspection spends on a head."""

from __future__ import annotations

from dataclasses import dataclass

from attsvm.errors import Unsupported


@dataclass(frozen=True)
class InspectionConfig:
    """What is spent on each head.

    fit, test: queries to fit on and held out. draws: heads of each null, in the Frobenius norm;
    nuclear_draws: in the nuclear norm (0: only the head itself; −1: the nuclear norm is left out).
    attacks: queries on which each guarantee is attacked. share: the error of eviction. cross:
    whether cross-entropy fits are made. cache: texts of a causal model on which the keys are named
    that no later query needs. seed: of every draw.

    >>> InspectionConfig.quick().fit < InspectionConfig().fit
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
        limits = {
            "fit": 1,
            "test": 2,
            "draws": 0,
            "attacks": 0,
            "cache": 0,
            "nuclear_draws": -1,
        }
        for name, least in limits.items():
            if getattr(self, name) < least:
                raise Unsupported(f"{name} is {getattr(self, name)}: it must be at least {least}")
        if not 0 < self.share < 1:
            raise Unsupported(f"share is {self.share}: it must lie between 0 and 1")

    @staticmethod
    def quick(*, seed: int = 0) -> InspectionConfig:
        """Far less: fewer queries, two draws, no nuclear norm, no cross-entropy fits."""
        return InspectionConfig(
            fit=60,
            test=120,
            draws=2,
            nuclear_draws=-1,
            attacks=20,
            cross=False,
            cache=4,
            seed=seed,
        )

    @property
    def queries(self) -> int:
        """How many queries are asked for."""
        return self.fit + self.test

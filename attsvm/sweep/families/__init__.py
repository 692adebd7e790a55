"""Families of instances, by name: what a sweep draws."""

from __future__ import annotations

from attsvm.sweep.families.equal_scores import equal
from attsvm.sweep.families.family import Family
from attsvm.sweep.families.flipped_labels import among_noise
from attsvm.sweep.families.gaussian import all_gaussian
from attsvm.sweep.families.spaced import apart
from attsvm.sweep.families.sphere import on_the_sphere

FAMILIES: dict[str, Family] = {
    "sphere": on_the_sphere,
    "gaussian": all_gaussian,
    "spaced": apart,
    "equal-scores": equal,
    "flipped-labels": among_noise,
}

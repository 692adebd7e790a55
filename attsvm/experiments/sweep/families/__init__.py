"""Families of instances, by name: what a sweep draws."""

from __future__ import annotations

from attsvm.experiments.sweep.families.equal_scores import equal
from attsvm.experiments.sweep.families.family import Family
from attsvm.experiments.sweep.families.flipped_labels import among_noise
from attsvm.experiments.sweep.families.gaussian import all_gaussian
from attsvm.experiments.sweep.families.spaced import apart
from attsvm.experiments.sweep.families.sphere import on_the_sphere

FAMILIES: dict[str, Family] = {
    "sphere": on_the_sphere,
    "gaussian": all_gaussian,
    "spaced": apart,
    "equal-scores": equal,
    "flipped-labels": among_noise,
}

"""Other draws than a claim's own: more instances, or instances from another seed on.

The config of a claim names its instances by their seeds. With `Draws` the same claim, with the same
thresholds, is run on others; the record keeps the config it was run with, and it is judged and
audited with that one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from attsvm._utils.memory import require
from attsvm.errors import AttsvmError, Unsupported
from attsvm.experiments.studies.claim import Claim, Config, can_redraw, redrawn


@dataclass(frozen=True)
class Draws:
    """So many instances, from this seed on; None: those of the claim."""

    instances: int | None = None
    first: int | None = None

    @property
    def own(self) -> bool:
        """Whether they are the claim's own."""
        return self.instances is None and self.first is None

    def config(self, claim: Claim, quick: bool) -> Config:
        """The config of the claim with these draws, where it has random ones."""
        base = claim.quick if quick else claim.full
        if self.own or not can_redraw(claim):
            return base
        return redrawn(base, instances=self.instances, first=self.first)


def asked_configs(claims: Sequence[Claim], quick: bool, draws: Draws) -> dict[str, Config]:
    """The config of every claim; draws that would change none of them are refused."""
    if not draws.own and claims and not any(map(can_redraw, claims)):
        raise Unsupported(
            f"{claims[0].id} has no random instances: leave out --instances and --first"
        )
    if draws.instances is not None:
        for claim in filter(can_redraw, claims):
            _require_room(claim, claim.quick if quick else claim.full, draws.instances)
    return {claim.id: draws.config(claim, quick) for claim in claims}


# Bytes of the objects that hold an instance, beside its numbers.
_OBJECTS = 400.0


def _require_room(claim: Claim, config: Config, instances: int) -> None:
    """Raises TooLarge when so many instances, which a run holds at once, are beyond memory.

    What is counted is the least that a claim needs: its instances. The records of its training are
    counted by `attsvm.train`, before the first step.
    """
    shape = config.get("shape") or [config[name] for name in ("n", "T", "d") if name in config]
    need = instances * (_OBJECTS + 8.0 * prod(shape if len(shape) == 3 else (0,)))
    require(need, f"{instances} instances of {claim.id}", use="fewer --instances")


def config_on_file(claim: Claim, record: dict[str, Any]) -> Config | None:
    """The config that the record was run with: the claim's, with draws of its own perhaps.

    None when it is no config of this version.
    """
    kept = record["config"]
    base = claim.quick if record.get("quick") else claim.full
    if kept == as_json(base):
        return base
    try:
        seeds = kept["seeds"]
        first = kept.get("first") if isinstance(seeds, int) else min(seeds)
        count = seeds if isinstance(seeds, int) else len(seeds)
        for begin in (None, first):
            config = Draws(count, begin).config(claim, bool(record.get("quick")))
            if kept == as_json(config):
                return config
    except (AttsvmError, KeyError, TypeError, ValueError):
        return None
    return None


def as_json(config: Config) -> Any:
    """The config as a file gives it back."""
    return json.loads(json.dumps(config))

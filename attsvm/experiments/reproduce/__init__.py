"""Claims run, judged from what was saved, drawn, and written to a folder with one page."""

from __future__ import annotations

from attsvm.experiments.reproduce.audit import audit_claims
from attsvm.experiments.reproduce.judging import draw, judged
from attsvm.experiments.reproduce.outside import claims_from, known_claims
from attsvm.experiments.reproduce.runs import (
    at_hand,
    chosen_ids,
    digest,
    measure,
    reproduce_claims,
    workers,
)

__all__ = [
    "at_hand",
    "audit_claims",
    "chosen_ids",
    "claims_from",
    "digest",
    "draw",
    "judged",
    "known_claims",
    "measure",
    "reproduce_claims",
    "workers",
]

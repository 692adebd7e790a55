"""Claims run, judged from what was saved, drawn, and kept: the folder that a page is drawn from."""

from __future__ import annotations

from attsvm.reproduce.audit import audit
from attsvm.reproduce.judging import draw, judge, judged
from attsvm.reproduce.runs import chosen_ids, digest, measure, reproduce

__all__ = ["audit", "chosen_ids", "digest", "draw", "judge", "judged", "measure", "reproduce"]

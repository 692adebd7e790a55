"""Attention and decoder trained together: a prompt or a weight, and the linear head v."""

from __future__ import annotations

from dataclasses import replace

from attsvm.models import prompt, weight


def _prompt_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {**prompt.shapes(d, dq, width, e), "v": (e,)}


def _weight_shapes(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {**weight.shapes(d, dq, width, e), "v": (e,)}


PROMPT = replace(prompt.MODEL, name="joint-prompt", shapes=_prompt_shapes, trains_head=True)
WEIGHT = replace(weight.MODEL, name="joint-weight", shapes=_weight_shapes, trains_head=True)

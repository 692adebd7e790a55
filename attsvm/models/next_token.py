"""The models of sentences: a decoder W_ov (N, d), attention W_kq (d, d), or both."""

from __future__ import annotations

from attsvm.ground.arrays import Floats
from attsvm.models.model import Model
from attsvm.rules.rule import Blocks


def _attention(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {"W_kq": (d, dq)}


def _decoder(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return {"W_ov": (e, d)}


def _both(d: int, dq: int, width: int, e: int) -> dict[str, tuple[int, ...]]:
    return _decoder(d, dq, width, e) | _attention(d, dq, width, e)


def _kq(params: Blocks) -> Floats:
    return params["W_kq"]


def _ov(params: Blocks) -> Floats:
    return params["W_ov"]


def _as_it_is(params: Blocks, G: Floats) -> Blocks:
    return {name: G for name in params}


# `e` of the shapes is the vocabulary's size N.
SENTENCE_MODELS: dict[str, Model] = {
    "next-token": Model("next-token", _attention, _kq, _as_it_is),
    "decoder": Model("decoder", _decoder, _ov, _as_it_is),
    "joint-next-token": Model("joint-next-token", _both, _kq, _as_it_is),
}

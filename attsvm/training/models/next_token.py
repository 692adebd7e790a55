"""The models of sentences: a decoder W_ov (N, d), attention W_kq (d, d), or both."""

from __future__ import annotations

from dataclasses import dataclass

from attsvm._utils.arrays import Floats
from attsvm.training.optimizers.optimizer import Blocks


@dataclass(frozen=True)
class SentenceModel:
    """Which of the matrices W_ov and W_kq is trained on sentences."""

    name: str
    blocks: tuple[str, ...]

    @property
    def attends(self) -> bool:
        """Whether attention is trained."""
        return "W_kq" in self.blocks

    @property
    def decodes(self) -> bool:
        """Whether the decoder is trained."""
        return "W_ov" in self.blocks

    def shapes(self, vocabulary: int, dimension: int) -> dict[str, tuple[int, ...]]:
        """The shape of each block, without the stack axis."""
        known = {"W_ov": (vocabulary, dimension), "W_kq": (dimension, dimension)}
        return {name: known[name] for name in self.blocks}

    def matrix(self, params: Blocks) -> Floats:
        """W_kq, or W_ov of a decoder alone."""
        return params["W_kq" if self.attends else "W_ov"]


SENTENCE_MODELS: dict[str, SentenceModel] = {
    "next-token": SentenceModel("next-token", ("W_kq",)),
    "decoder": SentenceModel("decoder", ("W_ov",)),
    "joint-next-token": SentenceModel("joint-next-token", ("W_ov", "W_kq")),
}

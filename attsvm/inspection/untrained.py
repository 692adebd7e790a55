"""untrained_model(): a small transformer with random weights, for examples and for nulls."""

from __future__ import annotations

import string

import numpy as np

from attsvm.inspection.model import TrainedModel
from attsvm.inspection.pieces import LinearLayer, Mlp, NormLayer, gelu
from attsvm.inspection.reader import words_reader
from attsvm.inspection.transformer import Embedding, Layer, Transformer

_LONGEST = 64


def untrained_model(
    *, layers: int = 2, heads: int = 2, width: int = 4, seed: int = 0
) -> TrainedModel:
    """A BERT with random weights that reads single letters between [CLS] and [SEP].

    >>> untrained_model()
    TrainedModel(untrained: bert, 2 layers × 2 attention heads)
      width      4
      features   8
      positions  64, learned
      mask       none
      key heads  2
    """
    d = heads * width
    rng = np.random.default_rng(seed)
    reader = words_reader(tuple(string.ascii_lowercase))
    norm = NormLayer(np.ones(d, dtype=np.float32), np.zeros(d, dtype=np.float32), 1e-12)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)

    def linear(out: int, into: int) -> LinearLayer:
        return LinearLayer(normal(out, into), normal(out))

    body = Transformer(
        family="bert",
        embedding=Embedding(
            normal(reader.tokenizer.get_vocab_size(), d), normal(_LONGEST, d), norm=norm
        ),
        layers=tuple(
            Layer(
                query=linear(d, d),
                key=linear(d, d),
                value=linear(d, d),
                out=linear(d, d),
                scale=width**-0.5,
                after=norm,
                mlp=Mlp(linear(2 * d, d), linear(d, 2 * d), gelu),
                mlp_after=norm,
            )
            for _ in range(layers)
        ),
        heads=heads,
        groups=heads,
        width=width,
        features=d,
        longest=_LONGEST,
    )
    return TrainedModel("untrained", body, reader)

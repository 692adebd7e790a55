"""RoBERTa: BERT whose positions begin after the padding's."""

from __future__ import annotations

from attsvm.inspection.families.bert import read_encoder
from attsvm.inspection.families.family import Config, ModelWeights
from attsvm.inspection.transformer import Transformer


def read_roberta(config: Config, weights: ModelWeights) -> Transformer:
    """The Transformer of a RoBERTa checkpoint, or of one of its kin in other languages."""
    first = int(config.number("pad_token_id", 1)) + 1
    return read_encoder(config, weights.under("roberta."), family="roberta", first=first)

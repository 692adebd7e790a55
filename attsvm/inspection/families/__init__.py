"""The families of checkpoints, by the word `model_type` of their configuration."""

from __future__ import annotations

from attsvm.inspection.families.albert import read_albert
from attsvm.inspection.families.bert import read_bert
from attsvm.inspection.families.distilbert import read_distilbert
from attsvm.inspection.families.family import Config, Family, ModelWeights
from attsvm.inspection.families.gpt2 import read_gpt2
from attsvm.inspection.families.llama import read_llama
from attsvm.inspection.families.roberta import read_roberta

FAMILIES: dict[str, Family] = {
    "bert": read_bert,
    "albert": read_albert,
    "distilbert": read_distilbert,
    "roberta": read_roberta,
    "xlm-roberta": read_roberta,
    "camembert": read_roberta,
    "gpt2": read_gpt2,
    "llama": read_llama,
    "mistral": read_llama,
    "qwen2": read_llama,
}

__all__ = ["FAMILIES", "Config", "Family", "ModelWeights"]

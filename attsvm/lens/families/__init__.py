"""The families of checkpoints, by the word `model_type` of their configuration."""

from __future__ import annotations

from attsvm.lens.families.albert import read_albert
from attsvm.lens.families.bert import read_bert
from attsvm.lens.families.distilbert import read_distilbert
from attsvm.lens.families.family import Config, Family, Weights
from attsvm.lens.families.gpt2 import read_gpt2
from attsvm.lens.families.llama import read_llama
from attsvm.lens.families.roberta import read_roberta

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

__all__ = ["FAMILIES", "Config", "Family", "Weights"]

"""Claims of the paper on mirror descent [julistiono2024mirror]."""

from __future__ import annotations

from attsvm.experiments.studies.c import (
    cross_p_divergence,
    joint_mirror,
    joint_mirror_path,
    mirror_path,
    mirror_rates,
    opinion_words,
    real_images,
    real_sentences,
    real_text,
    single_instance,
    sparser_weights,
)
from attsvm.experiments.studies.claim import Claim

CLAIMS: dict[str, Claim] = {
    "C.cross-p-divergence": cross_p_divergence.CLAIM,
    "C.single-instance": single_instance.CLAIM,
    "C.joint-mirror": joint_mirror.CLAIM,
    "C.mirror-rates": mirror_rates.CLAIM,
    "C.mirror-path": mirror_path.CLAIM,
    "C.joint-mirror-path": joint_mirror_path.CLAIM,
    "C.real-sentences": real_sentences.CLAIM,
    "C.real-text": real_text.CLAIM,
    "C.sparser-weights": sparser_weights.CLAIM,
    "C.opinion-words": opinion_words.CLAIM,
    "C.real-images": real_images.CLAIM,
}

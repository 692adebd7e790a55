"""Next-token data: sentences, the orders they imply, their problems, and training on them.

    data  = language.read_sentences("text.txt")            # or Sentences.of(lines)
    every = language.orders(data)                          # who must rank above whom, by query
    best  = language.solve_attention(every, language.embedding_of(data.vocabulary))
    run   = language.two_stages(data)                      # or train(data, …), one stage
    end   = language.sentence_outcome(language.SentenceRun.of(run, data))

What is named here is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attsvm.language.embedding import embedding_of
    from attsvm.language.finite import FinitePart, finite_part
    from attsvm.language.order import Order, orders
    from attsvm.language.problems import Columns, solve_attention, solve_decoder
    from attsvm.language.realizable import Realizability, realizability
    from attsvm.language.sentences import Sentences
    from attsvm.language.text import read_sentences
    from attsvm.language.training.front import train
    from attsvm.language.training.outcomes import SentenceOutcome, sentence_outcome
    from attsvm.language.training.proofs import SentenceProof
    from attsvm.language.training.runs import SentenceRun
    from attsvm.language.training.stages import Stages, two_stages

# Name -> the module of this folder that it lives in.
_HOMES = {
    "Columns": "problems",
    "FinitePart": "finite",
    "Order": "order",
    "Realizability": "realizable",
    "SentenceOutcome": "training.outcomes",
    "SentenceProof": "training.proofs",
    "SentenceRun": "training.runs",
    "Sentences": "sentences",
    "Stages": "training.stages",
    "embedding_of": "embedding",
    "finite_part": "finite",
    "orders": "order",
    "read_sentences": "text",
    "realizability": "realizable",
    "sentence_outcome": "training.outcomes",
    "solve_attention": "problems",
    "solve_decoder": "problems",
    "train": "training.front",
    "two_stages": "training.stages",
}

__all__ = [
    "Columns",
    "FinitePart",
    "Order",
    "Realizability",
    "SentenceOutcome",
    "SentenceProof",
    "SentenceRun",
    "Sentences",
    "Stages",
    "embedding_of",
    "finite_part",
    "orders",
    "read_sentences",
    "realizability",
    "sentence_outcome",
    "solve_attention",
    "solve_decoder",
    "train",
    "two_stages",
]


def __getattr__(name: str) -> Any:
    """What is listed here, from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The listed names."""
    return sorted(__all__)

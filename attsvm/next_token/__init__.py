"""Next-token data: sentences, the orders they imply, their problems, and training on them.

    data  = next_token.read_sentences("text.txt")            # or Sentences.of(lines)
    every = next_token.orders(data)                          # who must rank above whom, by query
    best  = next_token.solve_attention(every, next_token.embedding_of(data.vocabulary))
    run   = next_token.two_stages(data)                      # or train(data, …), one stage
    end   = next_token.sentence_outcome(run)

What is named here is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attsvm.next_token.infimum import FinitePart, finite_part
    from attsvm.next_token.order import Order, orders
    from attsvm.next_token.problems import Columns, solve_attention, solve_decoder
    from attsvm.next_token.realizable import Realizability, realizability
    from attsvm.next_token.sentences import Sentences, embedding_of
    from attsvm.next_token.text import read_sentences
    from attsvm.next_token.training.outcome import SentenceOutcome, sentence_outcome
    from attsvm.next_token.training.proofs import SentenceProof
    from attsvm.next_token.training.train import SentenceRun, train, two_stages

# Module -> what is named here of it.
_NAMES = {
    "infimum": "FinitePart finite_part",
    "order": "Order orders",
    "problems": "Columns solve_attention solve_decoder",
    "realizable": "Realizability realizability",
    "sentences": "Sentences embedding_of",
    "text": "read_sentences",
    "training.outcome": "SentenceOutcome sentence_outcome",
    "training.proofs": "SentenceProof",
    "training.train": "SentenceRun train two_stages",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Columns",
    "FinitePart",
    "Order",
    "Realizability",
    "SentenceOutcome",
    "SentenceProof",
    "SentenceRun",
    "Sentences",
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

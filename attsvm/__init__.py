"""attsvm: which tokens softmax attention selects, and how surely.

The max-margin problems behind one-layer attention, solved fast and certified.
"""

from __future__ import annotations

import logging

from attsvm import measures
from attsvm.certificate import Certificate, certify
from attsvm.compound import relaxed, solve_sets
from attsvm.embedding import embedding_of
from attsvm.errors import (
    AttsvmError,
    BadSelection,
    BadTokens,
    ConvergenceWarning,
    Inseparable,
    NotConverged,
    TooLarge,
    Unsupported,
)
from attsvm.language.reading import read_sentences
from attsvm.limits import Limit, predict
from attsvm.norms import Norm, norm_of
from attsvm.optima import Optimality, local_optima, optimality
from attsvm.outcome import Outcome, outcome
from attsvm.path import Path
from attsvm.problem import Problem
from attsvm.selection import Selection
from attsvm.sentences import Sentences
from attsvm.solvers.front import solve
from attsvm.solvers.many import solve_many
from attsvm.stack import Stack
from attsvm.stages import two_stages
from attsvm.tokens import Tokens
from attsvm.training import train
from attsvm.version import __version__

__all__ = [
    "AttsvmError",
    "BadSelection",
    "BadTokens",
    "Certificate",
    "ConvergenceWarning",
    "Inseparable",
    "Limit",
    "Norm",
    "NotConverged",
    "Optimality",
    "Outcome",
    "Path",
    "Problem",
    "Selection",
    "Sentences",
    "Stack",
    "Tokens",
    "TooLarge",
    "Unsupported",
    "__version__",
    "certify",
    "embedding_of",
    "local_optima",
    "measures",
    "norm_of",
    "optimality",
    "outcome",
    "predict",
    "read_sentences",
    "relaxed",
    "solve",
    "solve_many",
    "solve_sets",
    "train",
    "two_stages",
]

logging.getLogger("attsvm").addHandler(logging.NullHandler())

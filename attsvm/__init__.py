"""attsvm: which tokens softmax attention selects, and how surely.

The max-margin problems behind one-layer attention, solved fast and certified.
"""

from __future__ import annotations

import logging

from attsvm.certificate import Certificate, certify
from attsvm.doors import outcome, train
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
from attsvm.ground.version import __version__
from attsvm.language.embedding import embedding_of
from attsvm.language.sentences import Sentences
from attsvm.language.text import read_sentences
from attsvm.language.training.stages import two_stages
from attsvm.norms import Norm, norm_of
from attsvm.problem.problem import Problem
from attsvm.problem.selection import Selection
from attsvm.problem.stack import Stack
from attsvm.problem.tokens import Tokens
from attsvm.solvers.front import solve
from attsvm.solvers.many import solve_many
from attsvm.solvers.sets import relaxed, solve_sets
from attsvm.theory import measures
from attsvm.theory.limits.limit import Limit, predict
from attsvm.theory.optima import Optimality, local_optima, optimality
from attsvm.theory.outcomes import Outcome
from attsvm.training.path import Path

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

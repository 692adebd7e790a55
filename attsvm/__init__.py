"""attsvm: which tokens softmax attention selects, and how surely.

The max-margin problems behind one-layer attention, solved fast and certified.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from attsvm import language
    from attsvm.certificate import Certificate
    from attsvm.certificate.tight import Tight
    from attsvm.certificate.verify import Check
    from attsvm.comparison import Comparison, compare
    from attsvm.convergence import Basin, ConvergenceProof, basin, proofs_of_convergence
    from attsvm.doors import outcome, proof_of_convergence, train
    from attsvm.heads.head import Head
    from attsvm.language.embedding import embedding_of
    from attsvm.language.sentences import Sentences
    from attsvm.language.text import read_sentences
    from attsvm.language.training.stages import Stages, two_stages
    from attsvm.losses.loss import Loss
    from attsvm.models.model import Model
    from attsvm.norms import Norm, norm_of
    from attsvm.problem.problem import Problem
    from attsvm.problem.selection import Selection
    from attsvm.problem.stack import Stack
    from attsvm.problem.tokens import Tokens
    from attsvm.rules.rule import Rule
    from attsvm.solvers.front import solve
    from attsvm.solvers.given import certify
    from attsvm.solvers.many import solve_many
    from attsvm.solvers.sets import SetChoice, relaxed, solve_sets
    from attsvm.solvers.solver import Answer, Solver
    from attsvm.theory import measures
    from attsvm.theory.balls.paths import RegPath, regpath
    from attsvm.theory.limits.limit import Limit, predict
    from attsvm.theory.optima import Optima, Optimality, Witness, local_optima, optimality
    from attsvm.theory.outcomes import Outcome
    from attsvm.training.path import Path

# Everything else is loaded when it is used: name -> its module.
_HOMES = {
    "Answer": "solvers.solver",
    "Basin": "convergence",
    "Certificate": "certificate",
    "Check": "certificate.verify",
    "Comparison": "comparison",
    "ConvergenceProof": "convergence",
    "Head": "heads.head",
    "Limit": "theory.limits.limit",
    "Loss": "losses.loss",
    "Model": "models.model",
    "Norm": "norms",
    "Optima": "theory.optima",
    "Optimality": "theory.optima",
    "Outcome": "theory.outcomes",
    "Path": "training.path",
    "Problem": "problem.problem",
    "RegPath": "theory.balls.paths",
    "Rule": "rules.rule",
    "Selection": "problem.selection",
    "Sentences": "language.sentences",
    "SetChoice": "solvers.sets",
    "Solver": "solvers.solver",
    "Stack": "problem.stack",
    "Stages": "language.training.stages",
    "Tight": "certificate.tight",
    "Tokens": "problem.tokens",
    "Witness": "theory.optima",
    "basin": "convergence",
    "certify": "solvers.given",
    "compare": "comparison",
    "embedding_of": "language.embedding",
    "local_optima": "theory.optima",
    "norm_of": "norms",
    "optimality": "theory.optima",
    "outcome": "doors",
    "predict": "theory.limits.limit",
    "proof_of_convergence": "doors",
    "proofs_of_convergence": "convergence",
    "read_sentences": "language.text",
    "regpath": "theory.balls.paths",
    "relaxed": "solvers.sets",
    "solve": "solvers.front",
    "solve_many": "solvers.many",
    "solve_sets": "solvers.sets",
    "train": "doors",
    "two_stages": "language.training.stages",
}
_MODULES = {
    "language": "language",
    "lens": "lens",
    "measures": "theory.measures",
    "torch": "torch",
}

__all__ = [
    # What is asked.
    "Tokens",
    "Selection",
    "Problem",
    "Stack",
    "relaxed",
    # What is proved.
    "solve",
    "solve_many",
    "solve_sets",
    "certify",
    "Certificate",
    "Check",
    "Tight",
    "SetChoice",
    # What training does.
    "train",
    "Path",
    "outcome",
    "Outcome",
    "compare",
    "Comparison",
    "proof_of_convergence",
    "proofs_of_convergence",
    "ConvergenceProof",
    "basin",
    "Basin",
    # What theory says of it.
    "predict",
    "Limit",
    "optimality",
    "Optimality",
    "Witness",
    "local_optima",
    "Optima",
    "regpath",
    "RegPath",
    "measures",
    # Sentences.
    "language",
    "Sentences",
    "read_sentences",
    "embedding_of",
    "two_stages",
    "Stages",
    # What may be one's own.
    "Norm",
    "norm_of",
    "Solver",
    "Answer",
    "Rule",
    "Model",
    "Head",
    "Loss",
    # What goes wrong.
    "AttsvmError",
    "BadSelection",
    "BadTokens",
    "ConvergenceWarning",
    "Inseparable",
    "NotConverged",
    "TooLarge",
    "Unsupported",
    "__version__",
]

logging.getLogger("attsvm").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found = import_module(f"attsvm.{_MODULES[name]}")
    elif name in _HOMES:
        found = getattr(import_module(f"attsvm.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'attsvm' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""attsvm: which tokens softmax attention selects, and how surely.

The max-margin problems behind one-layer attention, solved fast and certified.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from attsvm._utils.version import __version__
from attsvm.errors import (
    AttsvmError,
    BadSelection,
    BadTokens,
    ConvergenceWarning,
    Infeasible,
    NotConverged,
    TooLarge,
    Unsupported,
)

if TYPE_CHECKING:
    from attsvm import next_token
    from attsvm.api import outcome, proof_of_convergence, train
    from attsvm.certificate import Certificate
    from attsvm.certificate.certificate import Tight
    from attsvm.certificate.verify import Check
    from attsvm.inspection import inspect
    from attsvm.next_token.sentences import Sentences, embedding_of
    from attsvm.next_token.text import read_sentences
    from attsvm.next_token.training.train import Stages, two_stages
    from attsvm.norms import Norm, norm_of
    from attsvm.problem.problem import Problem, Stack
    from attsvm.problem.selection import Selection
    from attsvm.problem.tokens import Tokens
    from attsvm.solvers.solve import certify, solve
    from attsvm.solvers.solve_many import solve_many
    from attsvm.solvers.solve_sets import SetChoice, relaxed, solve_sets
    from attsvm.solvers.solver import Answer, Solver
    from attsvm.theory import measures
    from attsvm.theory.comparison import Comparison, compare
    from attsvm.theory.convergence import Basin, ConvergenceProof, basin, proofs_of_convergence
    from attsvm.theory.limits import Limit, predict
    from attsvm.theory.optima import Optima, Optimality, Witness, local_optima, optimality
    from attsvm.theory.outcome import Outcome
    from attsvm.theory.regularization_path.paths import RegPath, regpath
    from attsvm.training.heads import Head
    from attsvm.training.losses import Loss
    from attsvm.training.models.model import Model
    from attsvm.training.optimizers.optimizer import Optimizer
    from attsvm.training.path import Path

# Everything else is loaded when it is used: name -> its module.
_HOMES = {
    "Answer": "solvers.solver",
    "Basin": "theory.convergence",
    "Certificate": "certificate",
    "Check": "certificate.verify",
    "Comparison": "theory.comparison",
    "ConvergenceProof": "theory.convergence",
    "Head": "training.heads",
    "Limit": "theory.limits",
    "Loss": "training.losses",
    "Model": "training.models.model",
    "Norm": "norms",
    "Optima": "theory.optima",
    "Optimality": "theory.optima",
    "Outcome": "theory.outcome",
    "Path": "training.path",
    "Problem": "problem.problem",
    "RegPath": "theory.regularization_path.paths",
    "Optimizer": "training.optimizers.optimizer",
    "Selection": "problem.selection",
    "Sentences": "next_token.sentences",
    "SetChoice": "solvers.solve_sets",
    "Solver": "solvers.solver",
    "Stack": "problem.problem",
    "Stages": "next_token.training.train",
    "Tight": "certificate.certificate",
    "Tokens": "problem.tokens",
    "Witness": "theory.optima",
    "basin": "theory.convergence",
    "certify": "solvers.solve",
    "compare": "theory.comparison",
    "embedding_of": "next_token.sentences",
    "inspect": "inspection",
    "local_optima": "theory.optima",
    "norm_of": "norms",
    "optimality": "theory.optima",
    "outcome": "api",
    "predict": "theory.limits",
    "proof_of_convergence": "api",
    "proofs_of_convergence": "theory.convergence",
    "read_sentences": "next_token.text",
    "regpath": "theory.regularization_path.paths",
    "relaxed": "solvers.solve_sets",
    "solve": "solvers.solve",
    "solve_many": "solvers.solve_many",
    "solve_sets": "solvers.solve_sets",
    "train": "api",
    "two_stages": "next_token.training.train",
}
_MODULES = {
    "inspection": "inspection",
    "measures": "theory.measures",
    "next_token": "next_token",
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
    # Trained transformers.
    "inspect",
    # Sentences.
    "next_token",
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
    "Optimizer",
    "Model",
    "Head",
    "Loss",
    # What goes wrong.
    "AttsvmError",
    "BadSelection",
    "BadTokens",
    "ConvergenceWarning",
    "Infeasible",
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

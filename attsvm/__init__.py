"""attsvm: which tokens softmax attention selects, with certificates.

One-layer attention is trained exactly, and the max-margin problems that it converges to are solved
and certified.
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
    from attsvm.next_token.training.train import two_stages
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
    from attsvm.theory.convergence import Basin, ConvergenceProof, basin
    from attsvm.theory.layer_outcome import LayerOutcome
    from attsvm.theory.limits import Limit, predict
    from attsvm.theory.optima import Optima, Optimality, Witness, local_optima, optimality
    from attsvm.theory.outcome import Outcome
    from attsvm.theory.regularization_path.paths import RegPath, regpath
    from attsvm.training.heads import Head
    from attsvm.training.losses import Loss
    from attsvm.training.models.model import Model
    from attsvm.training.optimizers.optimizer import Optimizer
    from attsvm.training.path import Path

# Everything else is loaded when it is used: module -> its names.
_PUBLIC = {
    "api": ("outcome", "proof_of_convergence", "train"),
    "certificate": ("Certificate",),
    "certificate.certificate": ("Tight",),
    "certificate.verify": ("Check",),
    "inspection": ("inspect",),
    "next_token.sentences": ("Sentences", "embedding_of"),
    "next_token.text": ("read_sentences",),
    "next_token.training.train": ("two_stages",),
    "norms": ("Norm", "norm_of"),
    "problem.problem": ("Problem", "Stack"),
    "problem.selection": ("Selection",),
    "problem.tokens": ("Tokens",),
    "solvers.solve": ("certify", "solve"),
    "solvers.solve_many": ("solve_many",),
    "solvers.solve_sets": ("SetChoice", "relaxed", "solve_sets"),
    "solvers.solver": ("Answer", "Solver"),
    "theory.comparison": ("Comparison", "compare"),
    "theory.convergence": ("Basin", "ConvergenceProof", "basin"),
    "theory.layer_outcome": ("LayerOutcome",),
    "theory.limits": ("Limit", "predict"),
    "theory.optima": ("Optima", "Optimality", "Witness", "local_optima", "optimality"),
    "theory.outcome": ("Outcome",),
    "theory.regularization_path.paths": ("RegPath", "regpath"),
    "training.heads": ("Head",),
    "training.losses": ("Loss",),
    "training.models.model": ("Model",),
    "training.optimizers.optimizer": ("Optimizer",),
    "training.path": ("Path",),
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}
_MODULES = {
    "inspection": "inspection",
    "measures": "theory.measures",
    "next_token": "next_token",
    "torch": "torch",
}

__all__ = [
    # Problems.
    "Tokens",
    "Selection",
    "Problem",
    "Stack",
    "relaxed",
    # Solutions.
    "solve",
    "solve_many",
    "solve_sets",
    "certify",
    "Certificate",
    "Check",
    "Tight",
    "SetChoice",
    # Training.
    "train",
    "Path",
    "outcome",
    "Outcome",
    "LayerOutcome",
    "compare",
    "Comparison",
    "proof_of_convergence",
    "ConvergenceProof",
    "basin",
    "Basin",
    # Theory.
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
    # Extension points.
    "Norm",
    "norm_of",
    "Solver",
    "Answer",
    "Optimizer",
    "Model",
    "Head",
    "Loss",
    # Errors.
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

"""Proofs that a training run has converged: the tube, the cone, the loss level."""

from attsvm.convergence.basins import Basin, basin
from attsvm.convergence.front import proof_of_convergence, proofs_of_convergence
from attsvm.convergence.proof import Blocked, ConvergenceProof

__all__ = [
    "Basin",
    "Blocked",
    "ConvergenceProof",
    "basin",
    "proof_of_convergence",
    "proofs_of_convergence",
]

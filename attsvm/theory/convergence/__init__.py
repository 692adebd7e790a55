"""Proofs that a training run has converged: the tube, the cone, the loss level."""

from attsvm.theory.convergence.basins import Basin, basin
from attsvm.theory.convergence.proof import Blocked, ConvergenceProof
from attsvm.theory.convergence.prover import proof_of_convergence

__all__ = [
    "Basin",
    "Blocked",
    "ConvergenceProof",
    "basin",
    "proof_of_convergence",
]

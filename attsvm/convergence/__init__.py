"""Proofs that a training run has converged: the tube, the cone, the loss level."""

from attsvm.convergence.front import proof_of_convergence
from attsvm.convergence.proof import Blocked, ConvergenceProof

__all__ = ["Blocked", "ConvergenceProof", "proof_of_convergence"]

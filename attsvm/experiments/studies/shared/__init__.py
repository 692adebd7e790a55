"""What claims share: instances, runs, proofs and pictures."""

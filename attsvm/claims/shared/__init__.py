"""What claims share: their work and its ledger, instances, runs, proofs and pictures."""

"""The parts of tools/check_proof.py, which share no code with attsvm."""

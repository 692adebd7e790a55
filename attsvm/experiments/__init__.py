"""Experiments: studies of the papers, sweeps, counterexamples, where they run, their report."""

"""Training on sentences: the tasks, their kernels, both stages, and the outcome of a run."""

"""Training on sentences: the tasks, their kernels, both stages, and where a run has got to."""

"""Shared by all packages: checked arrays, compiled kernels, files, memory, progress."""

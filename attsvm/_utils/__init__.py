"""What everything stands on: checked arrays, compiled kernels, files, memory, progress."""

"""What statements share: facts of an instance in floats, and in exact numbers."""

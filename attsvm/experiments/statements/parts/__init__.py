"""What statements share: facts of an instance in floats, in rationals and in many digits."""

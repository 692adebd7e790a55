"""Studies of the paper on mirror descent [julistiono2024mirror]."""

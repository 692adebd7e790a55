"""Studies of the paper on next-token prediction [huang2024nexttoken]."""

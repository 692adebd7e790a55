"""What the site makes of the package itself: its reference, its docstrings, its commands."""

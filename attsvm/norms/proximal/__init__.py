"""How far a norm pulls a matrix towards zero: the proximal maps of the listed norms."""

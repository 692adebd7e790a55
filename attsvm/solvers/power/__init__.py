"""Methods for entrywise norms: interior points for lP, linear programs for l1 and max."""

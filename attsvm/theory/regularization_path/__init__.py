"""The regularization path: balls, their minimisers, and the least loss over growing radii."""

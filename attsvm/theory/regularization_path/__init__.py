"""What the regularization path is made of: balls, their minimisers, and lower branches."""

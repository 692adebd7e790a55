"""Random numbers as the papers drew them."""

"""The page of a reproduction, one HTML file."""

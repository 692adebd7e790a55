"""The page of an inspection, one HTML file."""

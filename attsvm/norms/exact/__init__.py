"""Rational bounds of the norms."""

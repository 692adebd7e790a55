"""Tests that need torch: `make test-extras`."""

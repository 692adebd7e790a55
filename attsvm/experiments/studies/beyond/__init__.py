"""Studies that go beyond the four papers."""

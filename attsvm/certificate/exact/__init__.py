"""The same bounds and proofs in exact rational arithmetic."""

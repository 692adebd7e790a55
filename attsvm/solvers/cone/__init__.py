"""Interior points for the nuclear and the spectral norm."""

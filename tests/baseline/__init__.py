"""The judged numbers of a full and a quick reproduction, kept to compare later code with them."""

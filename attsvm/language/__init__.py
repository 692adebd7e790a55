"""Next-token data as theory sees it: the order of each query, and what follows from it."""

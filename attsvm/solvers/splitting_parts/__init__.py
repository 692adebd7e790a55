"""Parts of the splitting: the span of the queries, the two bounds, the iteration."""

"""What theory says of data and runs: limits, optima, landscape, measures, rates."""

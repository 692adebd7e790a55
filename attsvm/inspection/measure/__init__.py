"""What is measured of a head on a View: sharpness, rules, held-out agreement, economy, kind."""

"""What rules share: scaled gradients, steepest descent, decay and schedules."""

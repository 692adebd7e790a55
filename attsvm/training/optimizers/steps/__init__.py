"""What optimizers share: scaled gradients, steepest descent, decay and schedules."""

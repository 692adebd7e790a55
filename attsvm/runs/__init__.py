"""What a training run is made of: its task, its start, the loop, and what it records."""

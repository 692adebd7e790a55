"""What the commands share: options, inputs, tables."""

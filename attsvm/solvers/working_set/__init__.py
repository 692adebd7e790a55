"""The loop round a norm's own method: unit rows, the data's span, a working set, soft margins."""

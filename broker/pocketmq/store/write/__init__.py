"""Writing to the log: one block at a time that assigns offsets, encodes and appends."""

"""Bytes into values and back: pure functions over buffers, no files, no clock, no state."""

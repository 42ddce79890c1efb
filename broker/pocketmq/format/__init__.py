"""Encoders and parsers of stored bytes: pure functions over buffers, without files or clocks."""

"""Consuming in order: only one receive at a time has messages of a message group in flight."""

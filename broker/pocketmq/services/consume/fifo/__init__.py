"""Consuming in order: one message of a message group is in flight at a time."""

"""Sending: check, choose a queue, add what the broker adds, put."""

"""Sending: checks, chooses a queue, adds the broker's properties, puts."""

"""Delivering what waits for a delay level."""

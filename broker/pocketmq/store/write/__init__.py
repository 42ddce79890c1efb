"""Writes to the log: puts, their durability, and allocation of files."""

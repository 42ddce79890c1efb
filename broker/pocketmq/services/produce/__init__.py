"""Sending: checks messages, chooses a queue, adds system properties, puts."""

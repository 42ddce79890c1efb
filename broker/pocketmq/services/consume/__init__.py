"""Consuming: receives messages, settles them, and redelivers unsettled ones."""

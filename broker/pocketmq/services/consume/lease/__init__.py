"""Consuming under leases: messages are hidden until they are acknowledged, or a lease expires."""

"""Consuming under leases: messages are invisible until acknowledged, or until a lease expires."""

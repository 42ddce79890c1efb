"""Clients of RocketMQ's own protocol: their identity, and commands to them."""

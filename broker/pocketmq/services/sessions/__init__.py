"""Clients of RocketMQ's own protocol: who they are, and what can be said to them."""

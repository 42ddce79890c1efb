"""Predicates over messages: which of a queue's messages a consumer wants. Pure."""

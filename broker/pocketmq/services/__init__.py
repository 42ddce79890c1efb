"""Broker services: sending, pulling, querying. They import neither each other nor the wire."""

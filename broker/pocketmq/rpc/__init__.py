"""Serves the protocols: parses and checks requests, calls services, encodes the answers."""

"""Observability of the process: metrics, health, version and logs."""

"""Consuming under leases: receive, settle, give out again."""

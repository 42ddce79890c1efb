"""Consuming under leases: receive, settle, redeliver."""

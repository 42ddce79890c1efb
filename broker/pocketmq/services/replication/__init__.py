"""Replication of the commit log to slave brokers."""

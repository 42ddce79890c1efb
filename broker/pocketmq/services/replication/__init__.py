"""Replication of commit log and tables to PocketMQ followers and RocketMQ slaves; role changes."""

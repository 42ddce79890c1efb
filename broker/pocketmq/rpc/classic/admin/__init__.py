"""Requests of mqadmin, RocketMQ Dashboard and the exporter."""

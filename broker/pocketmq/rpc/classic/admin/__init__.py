"""Requests of mqadmin, RocketMQ Dashboard and the exporter that change nothing."""

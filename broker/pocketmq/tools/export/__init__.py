"""Exports messages to Parquet, Arrow and JSON lines files."""

"""Keeping the views of the log: giving them records, making them durable, removing the old."""

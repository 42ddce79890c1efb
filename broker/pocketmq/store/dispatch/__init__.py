"""Maintains the views of the log: dispatch, flush and expiry."""

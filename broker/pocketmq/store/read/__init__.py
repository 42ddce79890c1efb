"""Reads of a store: recent records on the event loop, old ones in threads."""

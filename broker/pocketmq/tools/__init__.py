"""Offline tools: they read the files of a store, and neither start nor ask a broker."""

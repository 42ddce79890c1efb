"""The structures on disk; each is independent of all others."""

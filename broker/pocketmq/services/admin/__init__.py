"""Administration of an open store."""

"""Every setting once: its key, unit, default and reason, and where its value came from."""

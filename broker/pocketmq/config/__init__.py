"""The settings: keys, units, defaults and reasons, and the sources of their values."""

"""The settings: keys, units, defaults and explanations, and the sources of their values."""

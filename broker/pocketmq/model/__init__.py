"""Values, numbers and errors that all packages share; no I/O, only the standard library."""

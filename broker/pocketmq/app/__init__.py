"""The composition root: settings become objects, objects run, and stop in reverse."""

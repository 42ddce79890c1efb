"""The structures on disk, each independent of the others."""

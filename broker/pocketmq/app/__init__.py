"""Composition root: builds a broker's objects from settings, runs them, and stops them."""

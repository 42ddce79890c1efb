"""Delivers delayed messages: by delay level, and at a given time by the timer wheel."""

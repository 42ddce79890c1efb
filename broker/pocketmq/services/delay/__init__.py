"""Delivers delayed messages: by delay level, and by the timer wheel at a time of their own."""

"""The timer's files as one: wheel, log, and how far they are."""

"""The timer's files: wheel, log and progress."""

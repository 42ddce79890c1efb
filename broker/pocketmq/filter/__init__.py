"""Message filters of consumers, by tags or SQL92; pure functions."""

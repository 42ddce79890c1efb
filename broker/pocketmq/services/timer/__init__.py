"""What waits for a time of its own: from its topic into the wheel, and out when it is due."""

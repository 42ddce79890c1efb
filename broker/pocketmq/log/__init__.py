"""The structures on disk, one by one; none knows another."""

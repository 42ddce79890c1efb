"""What the process shows of itself: metrics, health, version and logs."""

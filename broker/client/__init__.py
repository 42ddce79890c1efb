"""What the command line speaks with a broker by."""

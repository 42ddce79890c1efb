"""The port on which slave brokers get the commit log."""

"""Connections of replication: to followers and slaves, to a leader or master, and for fencing."""

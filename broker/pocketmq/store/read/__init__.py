"""Reading a store: fresh records at once, old ones off the event loop."""

"""Reading a store: what is fresh at once, what is old off the event loop."""

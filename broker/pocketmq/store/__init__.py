"""The message store: put, flush, dispatch, recovery and reads; it does not interpret messages."""

"""One store out of structures: put, flush, dispatch, recover, read. Nothing here knows meanings."""

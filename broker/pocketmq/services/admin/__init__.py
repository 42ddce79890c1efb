"""Administration of an open store.

A change of a table that may raise DiskFull may also raise NotReplicated and StoreFailed.
"""

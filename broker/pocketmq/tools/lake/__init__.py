"""Lakes: messages of a store or a broker as Parquet files, each message exactly once.

    run:      log or queues ─► drafts ─► date=…/topic=…/*.parquet ─► manifest
    compact:  small files ─► large files ─► manifest

The names of all objects are in catalog.py; commits.py has the order in which they are written.
"""

"""The only walk over a log: by column, chunk by chunk, with one rule for damage.

    source ─► reader: chunks of valid records ─► log walk: chunks and holes, file after file
                                     damage ─► search: next valid record

All code that starts, rebuilds, verifies, repairs, dumps, searches or exports a log uses this walk,
so that it sees the same records. The caller opens the files: a source has bytes and a function to
read them.
"""

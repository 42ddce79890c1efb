"""The only walk over a log: in chunks of many records, with one rule for damage.

    source ─► reader: chunks of valid records ─► log walk: chunks and holes, file after file
                                     damage ─► search: next valid record

All code that starts, rebuilds, verifies, repairs, dumps, searches or exports a log uses this walk,
so that all of it sees the same records. The caller opens the files; `LogSource` contains a file's
bytes and a function to read them.
"""

"""The only walk over a log: in chunks of many records, with one rule for damage.

    source ─► reader: chunks of valid records ─► log walk: chunks and holes, file after file
                                     damage ─► search: next valid record

Starts, rebuilds, verifications, repairs, dumps, searches and exports use this walk, so that all
process the same records. The caller opens the files; `LogSource` contains a file's bytes and a
function to read them.
"""

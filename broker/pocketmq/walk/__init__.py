"""The one walk over a log: by column, in pieces, over damage by one rule.

    source ─► reader: chunks of sound records ─► log walk: chunks and holes, file after file
                                     damage ─► search: where sound records go on

All code that starts, rebuilds, verifies, repairs, dumps, searches or exports a log walks it here,
so that it sees the same records. The caller opens the files: a source is bytes and a way to read
them.
"""

"""The one walk over a log: by column, in pieces, over damage by one rule.

    source ─► reader: chunks of sound records ─► log walk: chunks and holes, file after file
                                     damage ─► search: where sound records go on

What starts, rebuilds, verifies, repairs, dumps, searches or exports a log walks it here, so that
all of them see the same records. Files are opened by those who walk: a source is bytes and a way
to read them.
"""

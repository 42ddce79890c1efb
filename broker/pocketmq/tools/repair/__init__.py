"""`store repair`: sets damaged bytes aside, and makes the store whole around them.

    look (tools/verify) ─► plan ─► 1 copies aside    pocketmq/quarantine/<UTC time>/
                                   2 the log         sound records replace damaged bytes
                                   3 small files     tables, checkpoint, mark
                                   4 views           rebuilt and installed
                                   5 look again, report

Nothing is changed before its copy is durable, and every step can be taken again: a repair that was
killed is gone on with by the next one.
"""

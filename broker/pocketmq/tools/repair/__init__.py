"""Repairs a store after copying the damaged bytes to a quarantine (`store repair`).

    verify (tools/verify) ─► plan ─► 1 quarantine     copies to pocketmq/quarantine/<UTC time>/
                                     2 log            fillers replace damaged bytes
                                     3 small files    tables, checkpoint, flushed mark
                                     4 views          rebuilt and installed
                                     5 verify again, report

Nothing is changed before its copy is durable. Every step can be repeated, and the next repair
continues one that was killed.
"""

"""Repairs a store after copying the damaged bytes to a quarantine (`store repair`).

    verify (tools/verify) ─► plan ─► 1 quarantine     copies to pocketmq/quarantine/<UTC time>/
                                     2 log            fillers replace damaged bytes
                                     3 small files    tables, checkpoint, flushed mark
                                     4 views          rebuilt and installed
                                     5 verify again, report

No bytes are changed before their copy is durable. Every step can be repeated. The next repair
continues a killed one.
"""

"""`store verify`: every byte of a store that others can prove right or wrong.

    log ─► records as they ought to be ─┬─► units   compared with consumequeue/
                                        └─► entries compared with index/

The walk is that of a rebuild (broker/pocketmq/rebuild); its sinks compare instead of write. So the
log is checked against itself, and every view against the log, in both directions.
"""

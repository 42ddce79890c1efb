"""Verifies all redundant data of a store (`store verify`).

    log ─► valid records ─┬─► expected units     compared with consumequeue/
                          └─► expected entries   compared with index/

A verification walks the log like a rebuild (broker/pocketmq/rebuild), but compares units and
entries instead of writing them. Missing and surplus units and entries are reported.
"""

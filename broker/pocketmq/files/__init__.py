"""The disk: mapped files, mapped file queues, locks, small tables.

The only package that uses os and mmap.
"""

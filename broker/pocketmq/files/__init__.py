"""The disk: mapped files, files in a row, locks, small tables.

The only floor that knows os and mmap.
"""

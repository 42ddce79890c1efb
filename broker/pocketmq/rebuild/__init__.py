"""Rebuilds the views of a whole log offline: consume queues and index files, from log bytes alone.

    log files ─► ranges ─► decode (format/columns) ─► units in their final files
                                                 └──► entries ─► index files

One engine has two drivers. `sequential.py` reads one range after the other in this process.
`parallel.py` runs ranges as tasks on many workers: Spark, or any function that maps over a list.
Both write the same bytes as the broker's dispatch (`log/consume_queue.py`, `log/hash_index.py`).
This package needs no running broker, no lock and no code of `store/`. A worker receives only file
names and numbers.
"""

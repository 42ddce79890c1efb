"""The views of a whole log at once, offline: consume queues and index files from bytes alone.

    log files ─► ranges ─► decode (format/columns) ─► units in their final files
                                                 └──► entries ─► index files

One engine with two drivers: one range after the other in this process (`sequential.py`), or ranges
as tasks on many workers (`parallel.py`: Spark, or anything else that maps a function over a list).
Both write byte for byte what the broker's own dispatch writes (`log/consume_queue.py`,
`log/hash_index.py`). Nothing here needs a broker, a lock or the store's own code: a worker
gets file names and numbers.
"""
